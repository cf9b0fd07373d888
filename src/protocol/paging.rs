//! `page` and `pagesize` (`api-protocol.md` 2.5).

use super::fault::Fault;
use super::params::Params;

/// Which part of a list is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Most items; none means all of them.
    pub limit: Option<u32>,
    /// Items to skip.
    pub offset: u64,
}

impl Page {
    /// Reads the two parameters; `max` is both the default and the greatest page size.
    ///
    /// # Errors
    /// A [`Fault`] of code 431.
    pub fn read(command: &str, params: &Params, max: u32) -> Result<Page, Fault> {
        let page = number(command, params, "page")?;
        let size = number(command, params, "pagesize")?;
        match (page, size) {
            (None, None) => Ok(Page {
                limit: Some(max),
                offset: 0,
            }),
            (None, Some(-1)) => Ok(Page {
                limit: None,
                offset: 0,
            }),
            (Some(_), Some(-1)) => Err(Fault::parameter(
                "\"page\" parameter can't be given when \"pagesize\" is -1, which asks for everything",
            )),
            (None, Some(_)) => Err(Fault::parameter(
                "\"page\" parameter is required when \"pagesize\" is specified",
            )),
            (Some(_), None) => Err(Fault::parameter(
                "\"pagesize\" parameter is required when \"page\" is specified",
            )),
            (Some(page), Some(size)) => {
                if page < 1 {
                    return Err(Fault::unreadable(command, "page", &page.to_string()));
                }
                if size < 1 {
                    return Err(Fault::unreadable(command, "pagesize", &size.to_string()));
                }
                let limit = u32::try_from(size)
                    .ok()
                    .filter(|size| *size <= max)
                    .ok_or_else(|| {
                        Fault::parameter(format!(
                            "Page size can't exceed max allowed page size value: {max}"
                        ))
                    })?;
                let offset = u64::try_from(page - 1)
                    .unwrap_or_default()
                    .saturating_mul(u64::from(limit));
                Ok(Page {
                    limit: Some(limit),
                    offset: offset.min(i64::MAX.unsigned_abs()),
                })
            }
        }
    }

    /// The part of `items` that is asked for.
    #[must_use]
    pub fn cut<T>(self, items: Vec<T>) -> Vec<T> {
        items
            .into_iter()
            .skip(usize::try_from(self.offset).unwrap_or(usize::MAX))
            .take(self.limit.map_or(usize::MAX, |limit| limit as usize))
            .collect()
    }
}

fn number(command: &str, params: &Params, name: &str) -> Result<Option<i64>, Fault> {
    match params.get(name).map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => text
            .parse()
            .map(Some)
            .map_err(|_| Fault::unreadable(command, name, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<Page, String> {
        let params = Params::decode(Some(query), None).unwrap();
        Page::read("listZones", &params, 500).map_err(|fault| {
            assert_eq!(fault.body()["errorcode"], 431);
            assert_eq!(fault.body()["cserrorcode"], 9999);
            fault.text().to_owned()
        })
    }

    #[test]
    fn the_rules_of_paging() {
        let all = Page {
            limit: Some(500),
            offset: 0,
        };
        assert_eq!(read(""), Ok(all));
        assert_eq!(read("page=&pagesize="), Ok(all));
        assert_eq!(
            read("page=3&pagesize=20"),
            Ok(Page {
                limit: Some(20),
                offset: 40
            })
        );
        assert_eq!(
            read("pagesize=-1"),
            Ok(Page {
                limit: None,
                offset: 0
            })
        );
        assert_eq!(
            read("pagesize=20").unwrap_err(),
            "\"page\" parameter is required when \"pagesize\" is specified"
        );
        assert_eq!(
            read("page=1").unwrap_err(),
            "\"pagesize\" parameter is required when \"page\" is specified"
        );
        assert_eq!(
            read("page=1&pagesize=501").unwrap_err(),
            "Page size can't exceed max allowed page size value: 500"
        );
        assert!(read("page=1&pagesize=-1").is_err());
        assert!(read("page=0&pagesize=5").is_err());
        assert!(read("page=x&pagesize=5").is_err());
        assert!(read("page=1&pagesize=0").is_err());
        assert!(read("page=9223372036854775807&pagesize=500").is_ok());
    }

    #[test]
    fn a_cut_is_the_page() {
        let page = read("page=2&pagesize=2").unwrap();
        assert_eq!(page.cut(vec![1, 2, 3, 4, 5]), [3, 4]);
        assert_eq!(read("page=9&pagesize=2").unwrap().cut(vec![1, 2]), [0; 0]);
    }
}
