//! The signature of a request: canonical string, HMAC-SHA1, expiry of version 3 (`api-protocol.md` 1.5).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha1::Sha1;

/// One way in which clients write the canonical string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spelling {
    tilde_raw: bool,
    brackets_raw: bool,
    lower_case_order: bool,
}

const STRICT: Spelling = Spelling {
    tilde_raw: false,
    brackets_raw: false,
    lower_case_order: false,
};

/// All spellings that are accepted, the strict one first. They differ only in what stays unescaped and in the
/// order of the names, so each is as strong as the other.
const ACCEPTED: [Spelling; 8] = {
    let mut all = [STRICT; 8];
    let mut rest: &mut [Spelling] = &mut all;
    let mut bits: u8 = 0;
    while let [first, tail @ ..] = rest {
        first.tilde_raw = bits & 1 != 0;
        first.brackets_raw = bits & 2 != 0;
        first.lower_case_order = bits & 4 != 0;
        bits += 1;
        rest = tail;
    }
    all
};

/// Percent-encodes a value in the strict form: `A-Z a-z 0-9 - _ . *` stay, a space is `%20`.
#[must_use]
pub fn encode_value(v: &str) -> String {
    encode(v, STRICT)
}

fn encode(value: &str, spelling: Spelling) -> String {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F',
    ];
    let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or('0');
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        let stays = byte.is_ascii_alphanumeric()
            || matches!(byte, b'-' | b'_' | b'.' | b'*')
            || (spelling.tilde_raw && byte == b'~')
            || (spelling.brackets_raw && matches!(byte, b'[' | b']'));
        if stays {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(digit(byte >> 4));
            out.push(digit(byte & 15));
        }
    }
    out
}

/// The string that is signed, in the strict form.
#[must_use]
pub fn canonical(params: &[(String, String)]) -> String {
    spell(params, STRICT)
}

fn spell(params: &[(String, String)], spelling: Spelling) -> String {
    let mut sorted: Vec<(Vec<u16>, &str, &str)> = params
        .iter()
        .filter(|(name, _)| !name.eq_ignore_ascii_case("signature"))
        .map(|(name, value)| {
            let key = if spelling.lower_case_order {
                name.to_lowercase().encode_utf16().collect()
            } else {
                name.encode_utf16().collect()
            };
            (key, name.as_str(), value.as_str())
        })
        .collect();
    sorted.sort_by(|a, b| a.0.cmp(&b.0));
    let pairs: Vec<String> = sorted
        .iter()
        .map(|(_, name, value)| format!("{name}={}", encode(value, spelling)))
        .collect();
    pairs.join("&").to_lowercase()
}

fn mac(text: &str, secret: &str) -> Option<Hmac<Sha1>> {
    // HMAC takes a key of any length, so this is always there.
    let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).ok()?;
    mac.update(text.as_bytes());
    Some(mac)
}

/// The signature of `params` in base64, before it is percent-encoded for the URL.
///
/// ```
/// use cksd::protocol::signature::sign;
///
/// let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
/// let params = [pair("command", "listZones"), pair("response", "json"), pair("apiKey", "ak-test_1")];
/// assert_eq!(sign(&params, "SK-test_1"), "6f8UC8dyA8euiYgDc3NOgy2wOGs=");
/// ```
#[must_use]
pub fn sign(params: &[(String, String)], secret: &str) -> String {
    mac(&canonical(params), secret)
        .map(|mac| STANDARD.encode(mac.finalize().into_bytes()))
        .unwrap_or_default()
}

/// Whether `signature` is that of `params`, in the strict form or in one that real clients send: `~` left
/// raw, brackets left raw, names sorted without regard to case. Each comparison takes constant time.
#[must_use]
pub fn verify(params: &[(String, String)], secret: &str, signature: &str) -> bool {
    let Ok(given) = STANDARD.decode(signature.trim()) else {
        return false;
    };
    let mut tried: Vec<String> = Vec::new();
    for spelling in ACCEPTED {
        let text = spell(params, spelling);
        if tried.contains(&text) {
            continue;
        }
        if mac(&text, secret).is_some_and(|mac| mac.verify_slice(&given).is_ok()) {
            return true;
        }
        tried.push(text);
    }
    false
}

/// A request of signature version 3 whose `expires` is missing, unreadable or past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request has expired or does not say when it does")]
pub struct Expired;

/// Checks `expires` of a request of signature version 3; any other request never expires.
///
/// # Errors
/// [`Expired`].
pub fn check_expiry(params: &[(String, String)], now: Timestamp) -> Result<(), Expired> {
    let find = |wanted: &str| {
        params
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.trim())
    };
    if find("signatureversion") != Some("3") {
        return Ok(());
    }
    let expires = find("expires").and_then(read_instant).ok_or(Expired)?;
    if expires < now { Err(Expired) } else { Ok(()) }
}

/// Reads an instant in the spellings that clients use: `…Z`, `…+0000`, `…+00:00`, with or without fractions.
#[must_use]
pub fn read_instant(text: &str) -> Option<Timestamp> {
    text.parse::<Timestamp>().ok().or_else(|| {
        let parts = jiff::fmt::strtime::parse("%Y-%m-%dT%H:%M:%S%.f%z", text).ok()?;
        parts.to_timestamp().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "SK-test_1";

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[track_caller]
    fn vector(list: &[(&str, &str)], text: &str, signature: &str) {
        let params = pairs(list);
        assert_eq!(canonical(&params), text);
        assert_eq!(sign(&params, SECRET), signature);
        assert!(verify(&params, SECRET, signature));
        assert!(!verify(&params, "another", signature));
    }

    #[test]
    fn the_plain_vector() {
        vector(
            &[
                ("command", "listZones"),
                ("apiKey", "AK-test_1"),
                ("response", "json"),
                ("signature", "x"),
            ],
            "apikey=ak-test_1&command=listzones&response=json",
            "6f8UC8dyA8euiYgDc3NOgy2wOGs=",
        );
    }

    #[test]
    fn the_vector_with_every_special_character() {
        vector(
            &[
                ("command", "createKubernetesCluster"),
                ("apiKey", "AK-test_1"),
                ("response", "json"),
                ("name", "My c"),
                ("description", "a b*~+/[x]\u{e9}"),
                ("nodeofferings[0].node", "worker"),
                ("nodeofferings[0].offering", "o1"),
                ("zoneid", "z"),
            ],
            "apikey=ak-test_1&command=createkubernetescluster&description=a%20b*%7e%2b%2f%5bx%5d%c3%a9&name=my%20c&nodeofferings[0].node=worker&nodeofferings[0].offering=o1&response=json&zoneid=z",
            "UDiODIUJuGlZcD3ycORFS2XBhSk=",
        );
    }

    #[test]
    fn the_vector_with_an_empty_value_and_version_3() {
        vector(
            &[
                ("apiKey", "AK-test_1"),
                ("command", "listKubernetesClusters"),
                ("expires", "2030-01-02T03:04:05+0000"),
                ("keyword", ""),
                ("response", "json"),
                ("signatureVersion", "3"),
            ],
            "apikey=ak-test_1&command=listkubernetesclusters&expires=2030-01-02t03%3a04%3a05%2b0000&keyword=&response=json&signatureversion=3",
            "sNTfDlK7x5es1ar+PqvmgfxfYM8=",
        );
    }

    #[test]
    fn names_sort_as_received_so_upper_case_comes_first() {
        vector(
            &[
                ("apiKey", "AK-test_1"),
                ("command", "listTemplates"),
                ("templatefilter", "executable"),
                ("templateId", "t1"),
                ("response", "json"),
            ],
            "apikey=ak-test_1&command=listtemplates&response=json&templateid=t1&templatefilter=executable",
            "WtAk+bK9aEDBiRiI7rtU2b/QtQk=",
        );
    }

    #[test]
    fn what_clients_spell_otherwise_is_accepted() {
        let params = pairs(&[
            ("templatefilter", "a~b"),
            ("templateId", "[x]"),
            ("command", "listTemplates"),
        ]);
        let texts = [
            // `~` raw (Go, cs)
            "command=listtemplates&templateid=%5bx%5d&templatefilter=a~b",
            // brackets raw
            "command=listtemplates&templateid=[x]&templatefilter=a%7eb",
            // sorted without regard to case
            "command=listtemplates&templatefilter=a%7eb&templateid=%5bx%5d",
            // all three at once (libcloud)
            "command=listtemplates&templatefilter=a~b&templateid=[x]",
        ];
        for text in texts {
            let signature = STANDARD.encode(mac(text, SECRET).unwrap().finalize().into_bytes());
            assert!(verify(&params, SECRET, &signature), "{text}");
        }
        let other = STANDARD.encode(
            mac("command=listtemplates&templatefilter=a~b", SECRET)
                .unwrap()
                .finalize()
                .into_bytes(),
        );
        assert!(!verify(&params, SECRET, &other));
        assert!(!verify(&params, SECRET, "not base64"));
        assert!(!verify(&params, SECRET, ""));
    }

    #[test]
    fn the_expiry_counts_for_version_3_only() {
        let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let at = |version: &str, expires: &str| {
            check_expiry(
                &pairs(&[("signatureVersion", version), ("EXPIRES", expires)]),
                now,
            )
        };
        for good in [
            "2026-01-02T03:04:05Z",
            "2026-01-02T03:14:05+0000",
            "2026-01-02T03:14:05+00:00",
            "2026-01-02T03:14:05.125+0000",
            "2026-01-02T04:14:05.5+01:00",
        ] {
            assert_eq!(at("3", good), Ok(()), "{good}");
        }
        for bad in [
            "2026-01-02T03:04:04Z",
            "2026-01-02T03:04:04+0000",
            "2026-01-02T04:04:04+0100",
            "tomorrow",
            "",
        ] {
            assert_eq!(at("3", bad), Err(Expired), "{bad}");
        }
        assert_eq!(at("2", "2020-01-02T03:04:04Z"), Ok(()));
        assert_eq!(
            check_expiry(&pairs(&[("signatureversion", "3")]), now),
            Err(Expired)
        );
        assert_eq!(check_expiry(&pairs(&[("expires", "never")]), now), Ok(()));
    }
}
