# Completion of ascend-supervisorctl for bash;
# made from the tables of options by scripts/shell-files; do not edit.
# Source it, or copy it to /usr/share/bash-completion/completions/ascend-supervisorctl.

# The values of the option $1 that begin with $2; fails if it has none, or takes any.
_ascend_supervisorctl_values() {
    case $1 in
        --tail) : ;;
        --color) mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$2") ;;
        --grace) : ;;
        --state-file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        --log-dir) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
        -o|--output) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
        *) return 1 ;;
    esac
}

# Which option $cur is the value of: the word before, or the one before "=".
_ascend_supervisorctl_option() {
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

_ascend_supervisorctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} option word i=1 command= options
    COMPREPLY=()
    while ((i < COMP_CWORD)); do
        word=${COMP_WORDS[i]}
        case $word in
            --tail|--color|--grace|--state-file|--log-dir|-o|--output)
                [[ ${COMP_WORDS[i + 1]} == "=" ]] && ((i += 1))
                ((i += 1)) ;;
            -*) ;;
            *) command=$word; break ;;
        esac
        ((i += 1))
    done
    _ascend_supervisorctl_option
    _ascend_supervisorctl_values "$option" "$cur" && return
    case $command in
        "") options="-h --help --version --state-file --log-dir status health ready logs stop restart dump check-table convert" ;;
        status) options="-h --help --watch --json --state-file --log-dir" ;;
        health) options="-h --help --state-file --log-dir" ;;
        ready) options="-h --help --state-file --log-dir" ;;
        logs) options="-h --help -f --follow --tail --color --state-file --log-dir" ;;
        stop) options="-h --help --grace --wait --state-file --log-dir" ;;
        restart) options="-h --help --state-file --log-dir" ;;
        dump) options="-h --help --state-file --log-dir" ;;
        check-table) options="-h --help"; [[ $cur == -* ]] || { compopt -o filenames; options=$(compgen -f -- "$cur"); } ;;
        convert) options="-h --help -o --output"; [[ $cur == -* ]] || { compopt -o filenames; options=$(compgen -f -- "$cur"); } ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$cur")
}
complete -F _ascend_supervisorctl ascend-supervisorctl
