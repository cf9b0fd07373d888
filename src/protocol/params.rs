//! Parameters of a request: decoding of query and form, lists and maps (`api-protocol.md` 1.1 to 1.3).

use std::collections::BTreeMap;

use percent_encoding::percent_decode;

use super::fault::{Code, CsCode, Fault};

/// Most parameters that one request may have.
const MAX_PAIRS: usize = 5000;

/// A request whose parameters cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A name or value is no UTF-8 after decoding.
    #[error("a parameter is not valid UTF-8")]
    NotUtf8,
    /// More parameters than any client sends.
    #[error("the request has more than {MAX_PAIRS} parameters")]
    TooMany,
}

/// The decoded pairs of a request, each name once, in the order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Decodes query and form body. A name in the query wins over the body; of a repeated name the last one
    /// counts in the query and the first one in the body.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(query: Option<&str>, body: Option<&[u8]>) -> Result<Params, DecodeError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for piece in query.unwrap_or_default().split('&') {
            let Some((name, value)) = piece.split_once('=') else {
                continue; // a pair without `=` in the query does not count
            };
            let (name, value) = (form_decode(name.as_bytes())?, form_decode(value.as_bytes())?);
            if let Some(pair) = places.get(&name).and_then(|place| pairs.get_mut(*place)) {
                pair.1 = value;
            } else {
                places.insert(name.clone(), pairs.len());
                pairs.push((name, value));
            }
        }
        for piece in body.unwrap_or_default().split(|byte| *byte == b'&') {
            if piece.is_empty() {
                continue;
            }
            let cut = piece.iter().position(|byte| *byte == b'=');
            let (name, value) = match cut {
                Some(at) => (
                    piece.get(..at).unwrap_or_default(),
                    piece.get(at + 1..).unwrap_or_default(),
                ),
                None => (piece, [].as_slice()),
            };
            let (name, value) = (form_decode(name)?, form_decode(value)?);
            if !places.contains_key(&name) {
                places.insert(name.clone(), pairs.len());
                pairs.push((name, value));
            }
        }
        if pairs.len() > MAX_PAIRS {
            return Err(DecodeError::TooMany);
        }
        Ok(Params { pairs })
    }

    /// Parameters from pairs that are decoded already; of a repeated name the first counts.
    pub fn from_pairs<N: Into<String>, V: Into<String>>(list: impl IntoIterator<Item = (N, V)>) -> Params {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, value) in list {
            let name = name.into();
            if !pairs.iter().any(|(known, _)| *known == name) {
                pairs.push((name, value.into()));
            }
        }
        Params { pairs }
    }

    /// The pairs.
    #[must_use]
    pub fn pairs(&self) -> &[(String, String)] {
        &self.pairs
    }

    /// The value of a name in exactly this spelling (`command` and `response` are looked up so).
    #[must_use]
    pub fn exact(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The value of a name, without regard to the case of the name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The pieces of a comma-separated list; empty pieces are dropped.
    #[must_use]
    pub fn list(&self, name: &str) -> Vec<String> {
        self.get(name)
            .unwrap_or_default()
            .split(',')
            .map(str::trim)
            .filter(|piece| !piece.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// A map parameter `name[i].field=value`: its records by index. Fields keep their case.
    ///
    /// # Errors
    /// A [`Fault`] of code 430 when a name of this map has another form.
    pub fn map(&self, name: &str) -> Result<BTreeMap<i64, BTreeMap<String, String>>, Fault> {
        let mut records: BTreeMap<i64, BTreeMap<String, String>> = BTreeMap::new();
        for (full, value) in &self.pairs {
            let Some((base, _)) = full.split_once('[') else {
                continue;
            };
            if !base.eq_ignore_ascii_case(name) {
                continue;
            }
            let (index, field) = map_name(full).ok_or_else(|| malformed(full))?;
            records
                .entry(index)
                .or_default()
                .insert(field.to_owned(), value.clone());
        }
        Ok(records)
    }

    /// A map parameter read as one map: `details[0].a=1&details[1].b=2` and `details[0].a=1&details[0].b=2`
    /// are the same.
    ///
    /// # Errors
    /// As [`Params::map`].
    pub fn merged_map(&self, name: &str) -> Result<BTreeMap<String, String>, Fault> {
        Ok(self.map(name)?.into_values().flatten().collect())
    }

    /// Whether any record of a map parameter is there.
    #[must_use]
    pub fn has_map(&self, name: &str) -> bool {
        self.pairs.iter().any(|(full, _)| {
            full.split_once('[')
                .is_some_and(|(base, _)| base.eq_ignore_ascii_case(name))
        })
    }

    /// Checks what holds for every command: names with brackets have the form of a map (430), values hold no
    /// control characters but line feed and carriage return (431).
    ///
    /// # Errors
    /// The [`Fault`] to answer.
    pub fn check(&self) -> Result<(), Fault> {
        for (name, value) in &self.pairs {
            if name.contains('[') && map_name(name).is_none() {
                return Err(malformed(name));
            }
            if value
                .chars()
                .any(|c| c.is_ascii_control() && c != '\n' && c != '\r')
            {
                return Err(Fault::new(
                    Code::Parameter,
                    CsCode::ServerApi,
                    format!(
                        "Received value containing illegal ASCII non-printable characters for parameter {name}"
                    ),
                ));
            }
        }
        Ok(())
    }
}

fn malformed(name: &str) -> Fault {
    Fault::new(
        Code::Malformed,
        CsCode::ServerApi,
        format!(
            "Unable to decode parameter {name}; if specifying an object array, write it as name[index].field=value with a whole number as the index"
        ),
    )
}

/// Index and field of `name[i].field`.
fn map_name(full: &str) -> Option<(i64, &str)> {
    let (_, rest) = full.split_once('[')?;
    let (index, rest) = rest.split_once(']')?;
    let field = rest.strip_prefix('.')?;
    let clean = !index.contains('[') && !field.contains(['[', ']']) && !field.is_empty();
    clean.then_some((index.trim().parse().ok()?, field))
}

/// Decodes one name or value of a query or form: `+` is a space, `%XX` a byte of UTF-8. A `%` without two hex
/// digits stays.
fn form_decode(text: &[u8]) -> Result<String, DecodeError> {
    let spaced: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    let bytes: Vec<u8> = percent_decode(&spaced).collect();
    String::from_utf8(bytes).map_err(|_| DecodeError::NotUtf8)
}

/// Encodes pairs as a query or form body: spaces as `%20`, so that the text suits both.
#[must_use]
pub fn form_encode(pairs: &[(String, String)]) -> String {
    let encoded: Vec<String> = pairs
        .iter()
        .map(|(name, value)| {
            format!(
                "{}={}",
                super::signature::encode_value(name),
                super::signature::encode_value(value)
            )
        })
        .collect();
    encoded.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(params: &Params) -> Vec<(&str, &str)> {
        params
            .pairs()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    #[test]
    fn names_and_values_are_form_decoded() {
        let params = Params::decode(
            Some("details%5B0%5D.key=a+b&name=%C3%A9%2B&empty=&dropped&bad=%zz"),
            None,
        )
        .unwrap();
        assert_eq!(
            text(&params),
            [
                ("details[0].key", "a b"),
                ("name", "\u{e9}+"),
                ("empty", ""),
                ("bad", "%zz")
            ]
        );
    }

    #[test]
    fn the_query_wins_and_repeats_follow_their_rule() {
        let params = Params::decode(Some("a=1&b=q&a=2"), Some(b"b=body&c=1&c=2&d")).unwrap();
        assert_eq!(text(&params), [("a", "2"), ("b", "q"), ("c", "1"), ("d", "")]);
    }

    #[test]
    fn names_are_found_in_any_case_but_for_exact() {
        let params = Params::decode(Some("Command=x&ApiKey=k"), None).unwrap();
        assert_eq!(params.get("apikey"), Some("k"));
        assert_eq!(params.exact("command"), None);
    }

    #[test]
    fn what_is_no_utf8_is_refused() {
        assert_eq!(Params::decode(Some("a=%ff"), None), Err(DecodeError::NotUtf8));
    }

    #[test]
    fn too_many_parameters_are_refused() {
        let body: Vec<String> = (0..=MAX_PAIRS).map(|i| format!("a{i}=1")).collect();
        assert_eq!(
            Params::decode(None, Some(body.join("&").as_bytes())),
            Err(DecodeError::TooMany)
        );
    }

    #[test]
    fn lists_drop_empty_pieces() {
        let params = Params::decode(Some("nodeids=a,,b,%20,c,"), None).unwrap();
        assert_eq!(params.list("nodeIds"), ["a", "b", "c"]);
        assert!(params.list("absent").is_empty());
    }

    #[test]
    fn maps_are_records_or_one_map() {
        let params = Params::decode(
            Some(
                "NodeOfferings[0].node=worker&nodeofferings[0].Offering=o1&nodeofferings[2].node=control&x[0].y=1",
            ),
            None,
        )
        .unwrap();
        let map = params.map("nodeofferings").unwrap();
        assert_eq!(map.len(), 2);
        assert_eq!(map[&0]["node"], "worker");
        assert_eq!(map[&0]["Offering"], "o1");
        assert_eq!(map[&2]["node"], "control");
        let split = Params::decode(Some("details[0].a=1&details[1].b=2"), None).unwrap();
        let joined = Params::decode(Some("details[0].a=1&details[0].b=2"), None).unwrap();
        assert_eq!(split.merged_map("details"), joined.merged_map("details"));
        assert!(params.has_map("X"));
        assert!(!params.has_map("details"));
    }

    #[test]
    fn a_malformed_map_is_430() {
        for name in [
            "m[0]",
            "m[x].a",
            "m[0].a[1]",
            "m[0]a",
            "m[0].",
            "m[[0]].a",
            "m[0",
            "m[0]].a",
        ] {
            let params = Params::from_pairs([(name, "v")]);
            let fault = params.map("m").unwrap_err();
            assert_eq!(fault.code().number(), 430, "{name}");
            assert!(
                fault.text().starts_with(&format!(
                    "Unable to decode parameter {name}; if specifying an object array, "
                )),
                "{}",
                fault.text()
            );
            assert_eq!(params.check(), Err(fault), "{name}");
        }
    }

    #[test]
    fn control_characters_are_refused_but_for_line_ends() {
        let fault = Params::from_pairs([("name", "a\tb")]).check().unwrap_err();
        assert_eq!(fault.code().number(), 431);
        assert_eq!(
            fault.text(),
            "Received value containing illegal ASCII non-printable characters for parameter name"
        );
        assert_eq!(Params::from_pairs([("name", "a\r\nb\u{e9}")]).check(), Ok(()));
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        let pairs = vec![("a[0].b".to_owned(), "x y~*+&=%/\u{e9}".to_owned())];
        let query = form_encode(&pairs);
        assert_eq!(query, "a%5B0%5D.b=x%20y%7E*%2B%26%3D%25%2F%C3%A9");
        assert_eq!(Params::decode(Some(&query), None).unwrap().pairs(), pairs);
        assert_eq!(
            Params::decode(None, Some(query.as_bytes())).unwrap().pairs(),
            pairs
        );
    }
}
