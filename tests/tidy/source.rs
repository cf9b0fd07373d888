//! What the other checks need of a Rust file: the paths that it names and its string literals.
//!
//! Works on tokens, so that paths inside macros are seen, and comments and strings are not taken for code.

use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::files;

/// A path from the root of the crate, as `["db", "clusters"]`, with its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

/// A string literal with its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// What stands in a file outside its `#[cfg(test)]` modules.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) named: Vec<Named>,
    pub(crate) literals: Vec<Literal>,
}

/// Whether a file holds tests only: `tests.rs`, or anything in a folder `tests`.
pub(crate) fn is_test(path: &str) -> bool {
    path.split('/')
        .any(|part| part == "tests" || part == "tests.rs" || part == "testing.rs")
}

/// Reads the file at `path`.
#[track_caller]
pub(crate) fn read(path: &Path) -> Source {
    let text = files::read(path);
    scan(&text, &module_of(&files::relative(path)))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The module that a file of `src` is: `src/db/mod.rs` is `["db"]`, `src/lib.rs` is the root.
pub(crate) fn module_of(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Reads `text` as the content of `module`.
pub(crate) fn scan(text: &str, module: &[String]) -> Result<Source, String> {
    let tokens: TokenStream = text.parse().map_err(|error| format!("not Rust: {error}"))?;
    let mut source = Source::default();
    walk(&tokens.into_iter().collect::<Vec<_>>(), module, &mut source);
    Ok(source)
}

fn walk(tokens: &[TokenTree], module: &[String], source: &mut Source) {
    let mut at = 0;
    let mut in_test = false;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket && is_cfg_test(tokens, at) => {
                in_test = true;
            }
            TokenTree::Ident(word) if word == "mod" => {
                if let (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) =
                    (tokens.get(at + 1), tokens.get(at + 2))
                {
                    if !in_test {
                        let inner = [module, &[name.to_string()]].concat();
                        walk(&body.stream().into_iter().collect::<Vec<_>>(), &inner, source);
                    }
                    in_test = false;
                    at += 3;
                    continue;
                }
            }
            TokenTree::Ident(word) if word == "crate" || word == "super" || word == "cksd" => {
                if let Some((base, next)) = start_of_path(tokens, at, module) {
                    read_tree(tokens, next, &base, word.span().start().line, &mut source.named);
                    at = next;
                    continue;
                }
            }
            TokenTree::Group(group) if !in_test => {
                walk(&group.stream().into_iter().collect::<Vec<_>>(), module, source);
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => in_test = false,
            TokenTree::Punct(mark) if mark.as_char() == ';' => in_test = false,
            TokenTree::Literal(literal) if !in_test => {
                if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                    let line = literal.span().start().line;
                    source.literals.push(Literal {
                        line,
                        text: text.value(),
                    });
                }
            }
            _ => {}
        }
        at += 1;
    }
}

fn is_cfg_test(tokens: &[TokenTree], at: usize) -> bool {
    let hash = at.checked_sub(1).and_then(|before| tokens.get(before));
    let is_attribute = matches!(hash, Some(TokenTree::Punct(mark)) if mark.as_char() == '#');
    let text: String = tokens[at].to_string().split_whitespace().collect();
    is_attribute && text == "[cfg(test)]"
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    (at..at + 2).all(|at| matches!(tokens.get(at), Some(TokenTree::Punct(mark)) if mark.as_char() == ':'))
}

/// Where a path that begins at `at` starts from, and the index of what follows. `crate` and the crate's own
/// name are the root; each `super` goes one module up.
fn start_of_path(tokens: &[TokenTree], at: usize, module: &[String]) -> Option<(Vec<String>, usize)> {
    let mut base = Some(module.to_vec())
        .filter(|_| tokens[at].to_string() == "super")
        .unwrap_or_default();
    let mut at = at;
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        if !is_colons(tokens, at + 1) {
            return None;
        }
        if word == "super" {
            base.pop();
        } else if word != "crate" && word != "cksd" {
            break;
        }
        at += 3;
        if !matches!(tokens.get(at), Some(TokenTree::Ident(next)) if next == "super") {
            break;
        }
    }
    Some((base, at))
}

/// Reads `a::b::{c, d::e}` from `at` on.
fn read_tree(tokens: &[TokenTree], at: usize, base: &[String], line: usize, found: &mut Vec<Named>) {
    match tokens.get(at) {
        Some(TokenTree::Ident(word)) => {
            let path = [base, &[word.to_string()]].concat();
            if is_colons(tokens, at + 1) {
                read_tree(tokens, at + 3, &path, line, found);
            } else {
                found.push(Named { line, segments: path });
            }
        }
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
            let inner: Vec<TokenTree> = group.stream().into_iter().collect();
            for part in inner.split(|token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ','))
            {
                let line = part.first().map_or(line, |token| token.span().start().line);
                read_tree(part, 0, base, line, found);
            }
        }
        _ if base.is_empty() => {}
        _ => found.push(Named {
            line,
            segments: base.to_vec(),
        }),
    }
}

#[test]
fn paths_are_found_in_groups_and_macros_and_through_super_but_not_in_test_modules() {
    let text = r#"
        use crate::db::{clusters, jobs::{self, Lease}};
        use super::api;
        fn f() { tracing::info!("crate::web", x = crate::lab::Lab::new()); }
        mod inner { use super::super::config; }
        #[cfg(test)]
        mod tests { use crate::operations::scale; }
        fn g() { super::adapters::x(); }
    "#;
    let source = scan(text, &["jobs".to_owned()]).unwrap();
    let names: Vec<String> = source
        .named
        .iter()
        .map(|named| named.segments.join("::"))
        .collect();
    assert_eq!(
        names,
        [
            "db::clusters",
            "db::jobs::self",
            "db::jobs::Lease",
            "api",
            "lab::Lab::new",
            "config",
            "adapters::x"
        ]
    );
    assert_eq!(
        source.literals,
        [Literal {
            line: 4,
            text: "crate::web".to_owned()
        }]
    );
}
