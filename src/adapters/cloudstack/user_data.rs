//! User data on its way to the cloud: compressed, then in base64 (`api-protocol.md` 5.2).

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

/// CloudStack's default `vm.userdata.max.length`, measured on the base64 text.
const LIMIT: usize = 32_768;

/// User data that does not fit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UserDataError {
    #[error(
        "the user data has {0} characters when compressed and encoded, and the cloud takes at most {LIMIT}; make it shorter"
    )]
    TooLong(usize),
    #[error("the user data cannot be compressed: {0}")]
    Compression(String),
}

/// gzip and base64; cloud-init unpacks it.
pub(super) fn encode(text: &str) -> Result<String, UserDataError> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    let packed = gzip
        .write_all(text.as_bytes())
        .and_then(|()| gzip.finish())
        .map_err(|e| UserDataError::Compression(e.to_string()))?;
    let encoded = STANDARD.encode(packed);
    if encoded.len() > LIMIT {
        return Err(UserDataError::TooLong(encoded.len()));
    }
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn it_unpacks_to_what_it_was() {
        let text = "#cloud-config\nruncmd:\n- [echo, hé]\n".repeat(1000);
        let encoded = encode(&text).unwrap();
        assert!(encoded.len() < 1000);
        let mut unpacked = String::new();
        flate2::read::GzDecoder::new(STANDARD.decode(encoded).unwrap().as_slice())
            .read_to_string(&mut unpacked)
            .unwrap();
        assert_eq!(unpacked, text);
    }

    #[test]
    fn what_does_not_fit_is_refused_here() {
        // A generator of numbers that gzip cannot shorten below half.
        let mut state = 1_u64;
        let noise: String = (0..80_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
            })
            .collect();
        assert!(matches!(encode(&noise), Err(UserDataError::TooLong(n)) if n > LIMIT));
    }
}
