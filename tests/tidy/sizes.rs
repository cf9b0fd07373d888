//! At most 400 lines a file and 80 a function body, so that each can be read in one sitting.
//!
//! `exceptions.txt` names what is larger, with its exact size: an entry that is larger than what it names
//! fails, so the list can only shrink. A new entry needs the number below raised, which a review sees.

use std::collections::BTreeMap;

use syn::visit::Visit;

use crate::{files, report};

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 80;

/// How many entries the list of exceptions has. Lower it when one goes.
const EXCEPTIONS: usize = 0;

/// Sizes of a file and of its functions: `src/x.rs` and `src/x.rs fn name`.
fn sizes() -> BTreeMap<String, usize> {
    let mut sizes = BTreeMap::new();
    for file in files::rust() {
        let (path, text) = (files::relative(&file), files::read(&file));
        sizes.insert(path.clone(), text.lines().count());
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut functions = Functions { found: Vec::new() };
        functions.visit_file(&parsed);
        for (name, lines) in functions.found {
            let size = sizes.entry(format!("{path} fn {name}")).or_default();
            *size = lines.max(*size);
        }
    }
    sizes
}

struct Functions {
    found: Vec<(String, usize)>,
}

impl Functions {
    fn add(&mut self, name: &syn::Ident, body: &syn::Block) {
        let (open, close) = (body.brace_token.span.open(), body.brace_token.span.close());
        let lines = close.start().line.saturating_sub(open.end().line + 1);
        self.found.push((name.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig.ident, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig.ident, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig.ident, body);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

fn limit(name: &str) -> usize {
    if name.contains(" fn ") {
        FUNCTION_LINES
    } else {
        FILE_LINES
    }
}

/// Entries are `NAME: LINES`, with `#` before a comment.
fn exceptions() -> BTreeMap<String, usize> {
    files::read(&files::root().join("tests/tidy/exceptions.txt"))
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, lines) = line
                .rsplit_once(": ")
                .unwrap_or_else(|| panic!("no `NAME: LINES`: {line}"));
            (
                name.to_owned(),
                lines
                    .parse()
                    .unwrap_or_else(|_| panic!("no number of lines: {line}")),
            )
        })
        .collect()
}

fn judge(sizes: &BTreeMap<String, usize>, exceptions: &BTreeMap<String, usize>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, &lines) in sizes {
        let most = limit(name);
        match exceptions.get(name) {
            None if lines > most => wrong.push(format!("{name}: {lines} lines, at most {most}")),
            Some(&stated) if lines <= most => {
                wrong.push(format!(
                    "{name}: {lines} lines now, take its entry ({stated}) off the list"
                ));
            }
            Some(&stated) if lines != stated => {
                let way = if lines > stated {
                    "has grown"
                } else {
                    "has shrunk: state the new number"
                };
                wrong.push(format!("{name}: {lines} lines, the list says {stated}: it {way}"));
            }
            _ => {}
        }
    }
    let gone = exceptions.keys().filter(|name| !sizes.contains_key(*name));
    wrong.extend(gone.map(|name| format!("{name}: is not there any more, take its entry off the list")));
    wrong
}

#[test]
fn files_and_functions_can_be_read_in_one_sitting() {
    let exceptions = exceptions();
    report(
        "sizes (exceptions in tests/tidy/exceptions.txt)",
        &judge(&sizes(), &exceptions),
    );
    assert_eq!(
        exceptions.len(),
        EXCEPTIONS,
        "entries of tests/tidy/exceptions.txt, and the number in sizes.rs"
    );
}

#[test]
fn an_exception_can_only_shrink() {
    let sizes = BTreeMap::from([("src/a.rs".to_owned(), 450), ("src/a.rs fn f".to_owned(), 70)]);
    let with = |name: &str, lines| judge(&sizes, &BTreeMap::from([(name.to_owned(), lines)]));
    assert!(with("src/a.rs", 450).is_empty());
    assert!(with("src/a.rs", 449)[0].contains("has grown"));
    assert!(with("src/a.rs", 451)[0].contains("has shrunk"));
    assert!(
        with("src/a.rs fn f", 90)
            .iter()
            .any(|finding| finding.contains("take its entry (90) off"))
    );
    assert!(
        with("src/gone.rs", 450)
            .iter()
            .any(|finding| finding.contains("is not there any more"))
    );
    assert!(judge(&sizes, &BTreeMap::new())[0].contains("at most 400"));
}
