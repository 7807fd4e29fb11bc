"""A certificate authority of our own and the serving certificate it signs: how they are made, and when made anew.

Nothing here looks at a clock or asks the cluster; `webhook.cluster.own_certificates` does.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CERT, KEY, AUTHORITIES, AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"
"""What a Secret calls the parts; the first three as cert-manager does."""

Certificates = tuple[x509.Certificate, ...]


class BrokenError(ValueError):
    """Parts that do not make a serving certificate under an authority; the message names the part, never a key."""


@dataclass(frozen=True, slots=True)
class Lives:
    """How long what is made is valid. `backdated` is for API servers whose clocks are behind.

    A year for the authority: a renewal is a rotation that the cluster goes through often enough to be known to work,
    and whoever got hold of its key can use it no longer. 30 days for the certificate: what is renewed at two thirds
    leaves ten days to notice that it is not.
    """

    authority: timedelta = timedelta(days=365)
    certificate: timedelta = timedelta(days=30)
    backdated: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """`certificates`: the one that signs, and before it is trusted everywhere and its forerunner's certificates are
    over, the forerunner's too."""

    certificates: Certificates
    key: ec.EllipticCurvePrivateKey

    @property
    def signing(self) -> x509.Certificate:
        return self.certificates[0]

    @property
    def bundle(self) -> bytes:
        """PEM."""
        return _bundle(self.certificates)


@dataclass(frozen=True, slots=True)
class Issued:
    """A serving certificate, signed by one of the certificates of the authority."""

    authority: Authority
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pair(self) -> tuple[bytes, bytes]:
        """PEM of the certificate and of its key."""
        return self.certificate.public_bytes(Encoding.PEM), _private(self.key)

    @property
    def parts(self) -> dict[str, bytes]:
        """What `read_issued` reads."""
        certificate, key = self.pair
        bundle, authority_key = self.authority.bundle, _private(self.authority.key)
        return {CERT: certificate, KEY: key, AUTHORITIES: bundle, AUTHORITY_KEY: authority_key}


def issue(hosts: Sequence[str], now: datetime, lives: Lives) -> Issued:
    """All new. `hosts` are names or addresses."""
    return _signed(_new_authority(now, lives), hosts, now, lives)


def read_issued(parts: Mapping[str, bytes]) -> Issued:
    """Raises BrokenError where anything is missing, is not PEM or does not belong to the rest."""
    authority = _read_authority(parts)
    certificate, *_ = _certificates(parts, CERT)
    key = _key(parts, KEY)
    if not _belong(certificate, key):
        raise BrokenError(f"{KEY} does not belong to {CERT}")
    if not any(_is_signed_by(certificate, one) for one in authority.certificates):
        raise BrokenError(f"{CERT} is signed by none of {AUTHORITIES}")
    return Issued(authority, certificate, key)


def repair(
    parts: Mapping[str, bytes], served: Issued | None, hosts: Sequence[str], now: datetime, lives: Lives
) -> Issued:
    """In the place of parts that cannot be read. `served` is what was read before, if anything.

    As little as possible becomes new: an authority that is whole and known signs a new certificate, which is trusted at
    once. Where it is not, what is served goes on being served until a new authority is trusted.
    """
    with suppress(BrokenError):
        authority = _read_authority(parts)
        is_known = served is None or authority.signing in served.authority.certificates
        if is_known and not _is_due(authority.signing, now):
            return _signed(authority, hosts, now, lives)
    return issue(hosts, now, lives) if served is None else replace(served, authority=_succeeded(served, now, lives))


def renew(issued: Issued, hosts: Sequence[str], now: datetime, lives: Lives, *, trusted: bool) -> Issued:
    """What is to be in its place: itself where nothing is due.

    `trusted`: whoever calls us knows the authority that signs. While that is not so no certificate is made: it would be
    refused.
    """
    if _is_due(issued.authority.signing, now):
        return replace(issued, authority=_succeeded(issued, now, lives))
    is_of_the_signing = _is_signed_by(issued.certificate, issued.authority.signing)
    is_due = _is_due(issued.certificate, now) or not is_of_the_signing or _hosts(issued.certificate) != set(hosts)
    if is_due and trusted:
        return _signed(issued.authority, hosts, now, lives)
    needed = tuple(
        one
        for one in issued.authority.certificates
        if one == issued.authority.signing or _is_signed_by(issued.certificate, one) or not _is_over(one, issued, now)
    )
    return issued if needed == issued.authority.certificates else _with(issued, needed)


def certificates_of(pem: bytes) -> Certificates:
    """Those of a bundle; none where it is no bundle."""
    try:
        return tuple(x509.load_pem_x509_certificates(pem))
    except ValueError:
        return ()


def _with(issued: Issued, certificates: Certificates) -> Issued:
    return replace(issued, authority=replace(issued.authority, certificates=certificates))


def _is_over(forerunner: x509.Certificate, issued: Issued, now: datetime) -> bool:
    """Whether no certificate that it has signed is valid any more. Its key was thrown away when the authority that
    signs now was made."""
    longest = issued.certificate.not_valid_after_utc - issued.certificate.not_valid_before_utc
    return now > min(forerunner.not_valid_after_utc, issued.authority.signing.not_valid_before_utc + longest)


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    """At two thirds of its life, and where a clock was wrong when it was made."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now < begins or now >= begins + (ends - begins) * 2 / 3


def _succeeded(issued: Issued, now: datetime, lives: Lives) -> Authority:
    """The forerunners stay trusted: what they have signed is being served. Of several that is the last, and those that
    are not over."""
    new = _new_authority(now, lives)
    kept = (
        one
        for one in issued.authority.certificates
        if _is_signed_by(issued.certificate, one) or now <= one.not_valid_after_utc
    )
    return replace(new, certificates=(new.signing, *kept))


def _new_authority(now: datetime, lives: Lives) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    # A name of its own each: some verifiers look an issuer up by its name alone.
    name = _named(f"samestep CA {now:%Y-%m-%dT%H:%M:%SZ}")
    builder = _certificate(name, name, key.public_key(), now - lives.backdated, now + lives.authority)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    return Authority((certificate,), key)


def _signed(authority: Authority, hosts: Sequence[str], now: datetime, lives: Lives) -> Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    # Valid no longer than who signs it: verifiers take a chain as a whole.
    ends = min(now + lives.certificate, authority.signing.not_valid_after_utc)
    begins = max(now - lives.backdated, authority.signing.not_valid_before_utc)
    issuer = authority.signing.subject
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    certificate = (
        _certificate(_named("samestep"), issuer, key.public_key(), begins, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False)
        .add_extension(issuer_id, critical=False)
        .sign(authority.key, SHA256())
    )
    return Issued(authority, certificate, key)


def _certificate(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _read_authority(parts: Mapping[str, bytes]) -> Authority:
    certificates, key = _certificates(parts, AUTHORITIES), _key(parts, AUTHORITY_KEY)
    if not _belong(certificates[0], key):
        raise BrokenError(f"{AUTHORITY_KEY} does not belong to the first of {AUTHORITIES}")
    return Authority(certificates, key)


def _certificates(parts: Mapping[str, bytes], name: str) -> Certificates:
    found = certificates_of(parts.get(name, b""))
    if not found:
        raise BrokenError(f"{name} is no certificate in PEM form" if parts.get(name) else f"{name} is missing")
    return found


def _key(parts: Mapping[str, bytes], name: str) -> ec.EllipticCurvePrivateKey:
    if not parts.get(name):
        raise BrokenError(f"{name} is missing")
    try:
        key = load_pem_private_key(parts[name], password=None)
    except (ValueError, TypeError):
        # Not from it: nobody knows what all an error of a parser quotes.
        raise BrokenError(f"{name} is no unencrypted private key in PEM form") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BrokenError(f"{name} is no key of an elliptic curve, as those that are made here are")
    return key


def _belong(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return certificate.public_key().public_bytes(*form) == key.public_key().public_bytes(*form)


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _hosts(certificate: x509.Certificate) -> set[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {str(name.value) for name in names}


def _bundle(certificates: Iterable[x509.Certificate]) -> bytes:
    return b"".join(one.public_bytes(Encoding.PEM) for one in certificates)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
