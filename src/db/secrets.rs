//! Secrets at rest: AES-256-GCM, bound to the place where they are stored.
//!
//! **Invariant:** the associated data is table, column and row. A sealed value that is copied to another row
//! does not open there.

use std::fmt;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use rand::Rng;
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::DbError;

const NONCE_BYTES: usize = 12;

/// Where a secret is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The table.
    pub table: &'static str,
    /// The column.
    pub column: &'static str,
    /// The row's key; one that never changes.
    pub row: String,
}

impl Place {
    /// A place.
    #[expect(clippy::needless_pass_by_value, reason = "callers read better")]
    pub fn new(table: &'static str, column: &'static str, row: impl ToString) -> Self {
        Self {
            table,
            column,
            row: row.to_string(),
        }
    }

    /// Length-prefixed, so that no two places read the same.
    fn associated_data(&self) -> Vec<u8> {
        let mut data = Vec::new();
        for part in [self.table, self.column, &self.row] {
            data.extend_from_slice(&(part.len() as u64).to_be_bytes());
            data.extend_from_slice(part.as_bytes());
        }
        data
    }
}

/// Seals and opens.
#[derive(Clone)]
pub struct Cipher(Aes256Gcm);

/// A key that is not 32 bytes long, or a sealing that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// The key has another length.
    #[error("the encryption key must have 32 bytes, this one has {0}")]
    KeyLength(usize),
    /// The algorithm refused (a text of more than 64 GB).
    #[error("the value is too long to be sealed")]
    TooLong,
}

impl Cipher {
    /// A cipher with this key of 32 bytes.
    pub fn new(key: &SecretSlice<u8>) -> Result<Self, CipherError> {
        Aes256Gcm::new_from_slice(key.expose_secret())
            .map(Self)
            .map_err(|_| CipherError::KeyLength(key.expose_secret().len()))
    }

    /// Seals `secret` for its place: a random nonce, then the ciphertext.
    pub fn seal(&self, place: &Place, secret: &[u8]) -> Result<Vec<u8>, CipherError> {
        let mut nonce = [0_u8; NONCE_BYTES];
        rand::rng().fill_bytes(&mut nonce);
        let payload = Payload {
            msg: secret,
            aad: &place.associated_data(),
        };
        let sealed = self
            .0
            .encrypt(&Nonce::from(nonce), payload)
            .map_err(|_| CipherError::TooLong)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens what was sealed for this place.
    pub fn open(&self, place: &Place, sealed: &[u8]) -> Result<SecretSlice<u8>, DbError> {
        let refused = || DbError::Sealed {
            table: place.table,
            column: place.column,
            row: place.row.clone(),
        };
        let (nonce, text) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(refused)?;
        let payload = Payload {
            msg: text,
            aad: &place.associated_data(),
        };
        let opened = self
            .0
            .decrypt(&Nonce::from(*nonce), payload)
            .map_err(|_| refused())?;
        Ok(SecretSlice::from(opened))
    }

    /// Opens a text.
    pub fn open_text(&self, place: &Place, sealed: &[u8]) -> Result<SecretString, DbError> {
        let bytes = self.open(place, sealed)?;
        std::str::from_utf8(bytes.expose_secret())
            .map(SecretString::from)
            .map_err(|_| {
                DbError::inconsistent(place.table, place.column, &place.row, "the secret is no text")
            })
    }
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cipher(byte: u8) -> Cipher {
        Cipher::new(&SecretSlice::from(vec![byte; 32])).unwrap()
    }

    #[test]
    fn what_is_sealed_opens_at_its_place_and_nowhere_else() {
        let place = Place::new("ssh_identity", "private_key", 7);
        let sealed = cipher(1).seal(&place, b"key").unwrap();
        assert_eq!(
            cipher(1).open_text(&place, &sealed).unwrap().expose_secret(),
            "key"
        );
        for other in [
            Place::new("ssh_identity", "private_key", 8),
            Place::new("ssh_identity", "other", 7),
            Place::new("ssh_host_key", "private_key", 7),
        ] {
            assert!(matches!(
                cipher(1).open(&other, &sealed),
                Err(DbError::Sealed { .. })
            ));
        }
        assert!(cipher(2).open(&place, &sealed).is_err());
    }

    #[test]
    fn the_same_secret_never_looks_the_same_and_a_changed_byte_is_seen() {
        let place = Place::new("user", "secret_key", "a");
        let mut sealed = cipher(1).seal(&place, b"secret").unwrap();
        assert_ne!(sealed, cipher(1).seal(&place, b"secret").unwrap());
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        *sealed.last_mut().unwrap() ^= 1;
        assert!(cipher(1).open(&place, &sealed).is_err());
        assert!(cipher(1).open(&place, b"short").is_err());
    }

    #[test]
    fn a_key_of_another_length_is_refused_and_nothing_shows_the_key() {
        let error = Cipher::new(&SecretSlice::from(vec![1; 16])).unwrap_err();
        assert_eq!(error, CipherError::KeyLength(16));
        assert_eq!(format!("{:?}", cipher(1)), "Cipher(…)");
    }
}
