"""Seals and opens with HPKE: `boxes.py seal PUBLIC TEXT INFO`, `boxes.py open SECRET SEALED INFO`; all of it in hex."""

import sys

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
doing = sys.argv[1]
key, text, info = (bytes.fromhex(word) for word in sys.argv[2:])
if doing == "seal":
    print(suite.encrypt(text, X25519PublicKey.from_public_bytes(key), info=info).hex())
else:
    print(suite.decrypt(text, X25519PrivateKey.from_private_bytes(key), info=info).hex())
