"""TLS to etcd: whom we trust, and what a failed handshake means."""

from __future__ import annotations

import ssl
from datetime import datetime, timezone

from ascend_supervisor.etcd.access import Access
from ascend_supervisor.etcd.failures import Refused

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})

_BEGIN = "-----BEGIN CERTIFICATE-----"
WITHOUT_CLIENT_CERTIFICATE = (
    "with which etcd serves no JSON, so let it listen without --client-cert-auth, and use a user "
    "and a password"
)


def context_of(access: Access) -> ssl.SSLContext:
    """Trusts the CA of ``access`` alone, or those of the system; raises Refused for a bad CA."""
    if not any(endpoint.is_tls for endpoint in access.endpoints):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # is not used; trusts nobody
    try:
        if access.ca is None:
            return ssl.create_default_context()
        context = ssl.create_default_context(cadata=access.ca or "nothing")  # not the system's
    except (ssl.SSLError, ValueError) as error:
        found = "one that is damaged" if _BEGIN in (access.ca or "") else "none"
        raise Refused(
            "the CA for etcd holds no certificate that can be read: expected PEM, which begins "
            f"with {_BEGIN}, found {found}"
        ) from error
    # Since Python 3.13 a certificate needs extensions that many a CA made by hand does not write,
    # such as the identifier of its signer's key; etcdctl asks for none of them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def refusal_of(error: ssl.SSLError) -> str:
    """Why there is no TLS with an endpoint, and what to do, as a clause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(error)
    reason = error.reason or ""
    if reason in _NOT_TLS:
        return "it does not speak TLS, so write http:// or another port"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "HANDSHAKE" in reason):
        return f"it asks for a client certificate, {WITHOUT_CLIENT_CERTIFICATE}"
    what = reason.lower().replace("_", " ") or "without a reason"
    return f"TLS failed ({what}); see whether this is a client address of etcd, and its log"


def _unverified(error: ssl.SSLCertVerificationError) -> str:
    """The codes are those of OpenSSL's X509_V_ERR."""
    now = f"the clock here says {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
    match error.verify_code:
        case 9:
            return f"its certificate is not valid yet; {now}: set the clocks, or wait"
        case 10:
            return f"its certificate has expired; {now}: renew the certificate, or set the clock"
        case 18 | 19 | 20 | 21:
            return (
                "its certificate is not signed by a CA that is trusted here: give the CA that has "
                "signed it (--peers-ca), with those between"
            )
        case 62 | 64:
            return (
                "its certificate does not hold this host: write one that it holds, or add this one "
                "to its names (subjectAltName)"
            )
        case _:
            return f"its certificate is not accepted: {error.verify_message.rstrip('.').lower()}"
