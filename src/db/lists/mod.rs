//! Reading for replies: pages of clusters, jobs, events and versions, each in a fixed number of statements.
//!
//! What this must not know: how replies look.

pub mod clusters;
pub mod events;
pub mod jobs;
pub mod versions;

/// Which part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Most rows.
    pub limit: i64,
    /// Rows to skip.
    pub offset: i64,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T> {
    /// Matches on all pages.
    pub total: usize,
    /// The rows of this page.
    pub rows: Vec<T>,
}

impl<T> Listed<T> {
    fn of(total: Option<i64>, rows: Vec<T>) -> Self {
        let total = total.and_then(|total| usize::try_from(total).ok());
        Self {
            total: total.unwrap_or(rows.len()),
            rows,
        }
    }
}

/// A keyword as a pattern of `like`: the text itself anywhere.
#[must_use]
pub fn pattern(keyword: &str) -> String {
    let mut pattern = String::from("%");
    for c in keyword.chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_keyword_stands_for_itself() {
        assert_eq!(pattern("a%b_c\\"), "%a\\%b\\_c\\\\%");
    }
}
