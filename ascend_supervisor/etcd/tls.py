"""TLS to etcd: whom we trust, and what a failed handshake means."""

from __future__ import annotations

import ssl

from ascend_supervisor.etcd.access import Access
from ascend_supervisor.etcd.failures import Refused

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"})


def context_of(access: Access) -> ssl.SSLContext:
    """Trusts the CA of ``access`` alone, or those of the system; raises Refused for a bad CA."""
    if not any(endpoint.is_tls for endpoint in access.endpoints):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # is not used; trusts nobody
    try:
        if access.ca is None:
            return ssl.create_default_context()
        context = ssl.create_default_context(cadata=access.ca or "nothing")  # not the system's
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or str(error)
        raise Refused(
            f"the CA for etcd holds no certificate that can be read ({reason}): expected PEM, "
            "which begins with -----BEGIN CERTIFICATE-----"
        ) from error
    # Since Python 3.13 a certificate needs extensions that many a CA made by hand does not write,
    # such as the identifier of its signer's key; etcdctl asks for none of them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def refusal_of(error: ssl.SSLError) -> str:
    """Why there is no TLS with an endpoint, and what to do, as a clause."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not accepted ({error.verify_message.rstrip('.')}), see the CA and "
            "the names in the certificate"
        )
    reason = error.reason or str(error)
    if reason in _NOT_TLS:
        return "it does not speak TLS, so write http:// or another port"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "HANDSHAKE" in reason):
        return (
            "it asks for a client certificate, with which etcd serves no JSON, so let it listen "
            "without --client-cert-auth, and use a user and a password"
        )
    return f"TLS failed ({reason})"
