# Completion of ascend-supervisor for bash;
# made from the tables of options by scripts/shell-files; do not edit.
# Source it, or copy it to /usr/share/bash-completion/completions/ascend-supervisor.

# The values of the option $1 that begin with $2; fails if it has none, or takes any.
_ascend_supervisor_values() {
    case $1 in
        --rank-table) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --rank-table-timeout) : ;;
        --pod-name) : ;;
        --server-id) : ;;
        --node-rank) : ;;
        --method) mapfile -t COMPREPLY < <(compgen -W "ranktable torchrun msrun mindspore mpirun torch-ddp tensorflow once" -- "$2") ;;
        --master-port) : ;;
        --rank-dir) mapfile -t COMPREPLY < <(compgen -W "device rank same" -- "$2") ;;
        --env-from) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --rank-env) : ;;
        --work-dir) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
        --log-dir) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
        --restarts) : ;;
        --restart-period) : ;;
        --restart-delay) : ;;
        --restart-delay-max) : ;;
        --min-uptime) : ;;
        --no-restart-on) : ;;
        --cluster-verdict) : ;;
        --reset-file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --reset-grace) : ;;
        --retryable-exit-code) : ;;
        --exit-linger) : ;;
        --peers) : ;;
        --peers-port) : ;;
        --peers-ca) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --peers-user) : ;;
        --peers-password-file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --peers-ttl) : ;;
        --peers-fence) : ;;
        --peers-timeout) : ;;
        --peers-job) : ;;
        --servers) : ;;
        --grace) : ;;
        --drain) : ;;
        --release-delay) : ;;
        --hang-timeout) : ;;
        --rank-hang-timeout) : ;;
        --watchdog) : ;;
        --startup-timeout) : ;;
        --hang-dump) : ;;
        --console) mapfile -t COMPREPLY < <(compgen -W "auto json text raw none" -- "$2") ;;
        --console-ranks) : ;;
        --color) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$2") ;;
        --log-max-size) : ;;
        --log-keep) : ;;
        --log-level) mapfile -t COMPREPLY < <(compgen -W "debug info warning error" -- "$2") ;;
        --state-file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --event-log) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --termination-log) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --config) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        *) return 1 ;;
    esac
}

# Which option $cur is the value of: the word before, or the one before "=".
_ascend_supervisor_option() {
    local before=${COMP_WORDS[COMP_CWORD - 1]}
    if [[ $cur == "=" ]]; then
        cur=
        option=$before
    elif [[ $before == "=" ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    else
        option=$before
    fi
}

_ascend_supervisor() {
    local cur=${COMP_WORDS[COMP_CWORD]} option word i=1
    COMPREPLY=()
    while ((i < COMP_CWORD)); do
        word=${COMP_WORDS[i]}
        case $word in
            --) ((i += 1)); break ;;
            --rank-table|--rank-table-timeout|--pod-name|--server-id|--node-rank|--method|--master-port|--rank-dir|--env-from|--rank-env|--work-dir|--log-dir|--restarts|--restart-period|--restart-delay|--restart-delay-max|--min-uptime|--no-restart-on|--cluster-verdict|--reset-file|--reset-grace|--retryable-exit-code|--exit-linger|--peers|--peers-port|--peers-ca|--peers-user|--peers-password-file|--peers-ttl|--peers-fence|--peers-timeout|--peers-job|--servers|--grace|--drain|--release-delay|--hang-timeout|--rank-hang-timeout|--watchdog|--startup-timeout|--hang-dump|--console|--console-ranks|--color|--log-max-size|--log-keep|--log-level|--state-file|--event-log|--termination-log|--config)
                [[ ${COMP_WORDS[i + 1]} == "=" ]] && ((i += 1))
                ((i += 2)) ;;
            -*)
                ((i += 1))
                [[ ${COMP_WORDS[i]} == "=" ]] && ((i += 2)) ;;
            *) break ;;
        esac
    done
    if ((i < COMP_CWORD)) || { ((i == COMP_CWORD)) && [[ $cur != -* && $cur != "=" ]]; }; then
        # The command, and its own words.
        if declare -F _command_offset >/dev/null; then
            _command_offset "$i"
        elif ((i == COMP_CWORD)); then
            mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        fi
        return
    fi
    _ascend_supervisor_option
    _ascend_supervisor_values "$option" "$cur" && return
    mapfile -t COMPREPLY < <(compgen -W "--rank-table --rank-table-timeout --pod-name --server-id --node-rank --standalone --method --master-port --rank-dir --env-from --rank-env --work-dir --log-dir --restarts --restart-period --restart-delay --restart-delay-max --min-uptime --no-restart-on --follow-cluster --cluster-verdict --reset-file --reset-grace --retryable-exit-code --exit-linger --peers --peers-port --peers-ca --peers-user --peers-password-file --peers-ttl --peers-fence --peers-timeout --peers-job --servers --grace --drain --release-delay --hang-timeout --rank-hang-timeout --watchdog --startup-timeout --hang-dump --console --console-ranks --color --log-max-size --log-keep --log-level --state-file --event-log --termination-log --check --json --config --version --help -h" -- "$cur")
}
complete -F _ascend_supervisor ascend-supervisor
