//! Which paths belong to a node, and how a text that names them is mapped into its root folder.
//!
//! The mapping is textual. A path counts when it begins where a word can begin (after white space, a quote,
//! `=`, `:` and the like) and one of [`PREFIXES`] ends at a slash or at the end of the name. What already lies
//! in the root folder is left alone, so mapping twice changes nothing. The same rule is written as a sed
//! script for the stand-ins; a test holds both against one table.

use std::path::{Component, Path, PathBuf};

/// What of the file system a node has for itself. Everything else is the machine that the lab runs on.
pub(super) const PREFIXES: [&str; 12] = [
    "/opt",
    "/etc/kubernetes",
    "/etc/hostname",
    "/etc/ssh",
    "/root",
    "/home",
    "/mnt",
    "/media",
    "/tmp",
    "/var/lib",
    "/var/log",
    "/sys/class/dmi",
];

/// Where a path may begin: at the start, or after one of these.
const BEFORE: &str = " \t\n\r\"'`=:;|&<>(){},!@";

/// Stands for the root folder while sed works, so that nothing is mapped twice.
const MARK: char = '\u{1}';

/// Maps texts and paths into one root folder.
#[derive(Debug, Clone)]
pub(super) struct PathMap {
    root: String,
}

impl PathMap {
    /// A map into `root`. The folder's own name ends up in command lines, so it must need no quoting.
    pub(super) fn new(root: &Path) -> Result<Self, String> {
        let Some(text) = root.to_str() else {
            return Err("its name is not UTF-8; choose a data folder with a plain name".to_owned());
        };
        if !root.is_absolute() {
            return Err("it is not absolute; give the full path".to_owned());
        }
        let text = text.trim_end_matches('/');
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
        if text.is_empty() || !text.chars().all(plain) {
            return Err(
                "its name must consist of ASCII letters, digits and / . _ + - only, as it becomes part of command \
                 lines; choose another data folder"
                    .to_owned(),
            );
        }
        Ok(Self {
            root: text.to_owned(),
        })
    }

    /// The root folder.
    pub(super) fn root(&self) -> &str {
        &self.root
    }

    /// The lab's own folder in it.
    pub(super) fn lab(&self) -> PathBuf {
        Path::new(&self.root).join(".lab")
    }

    /// Where a path of the node is on the machine that the lab runs on: always inside the root folder.
    pub(super) fn inside(&self, path: &str) -> Result<PathBuf, String> {
        let mut place = PathBuf::from(&self.root);
        let relative = path.strip_prefix(&self.root).unwrap_or(path);
        for part in Path::new(relative).components() {
            match part {
                Component::Normal(name) => place.push(name),
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(format!("{path}: a path of a node may not contain `..`"));
                }
            }
        }
        Ok(place)
    }

    /// Maps every path of the node in a command line.
    pub(super) fn map(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 64);
        let mut rest = text;
        let mut may_begin = true;
        while let Some(next) = rest.chars().next() {
            if let Some(after) = name_end(rest, &self.root) {
                out.push_str(&self.root);
                rest = after;
                may_begin = false;
                continue;
            }
            let prefix = PREFIXES
                .iter()
                .find_map(|prefix| name_end(rest, prefix).map(|after| (*prefix, after)));
            if may_begin && let Some((prefix, after)) = prefix {
                out.push_str(&self.root);
                out.push_str(prefix);
                rest = after;
                may_begin = false;
                continue;
            }
            out.push(next);
            may_begin = BEFORE.contains(next);
            rest = rest.get(next.len_utf8()..).unwrap_or_default();
        }
        out
    }

    /// The sed script that does what [`Self::map`] does, for `sed -E`.
    pub(super) fn sed(&self) -> String {
        let root = self.root.replace('.', "\\.").replace('+', "\\+");
        // Inside a bracket expression only white space must be spelled out.
        let before = format!("[[:space:]{}]", BEFORE.trim());
        let ends = "([^A-Za-z0-9._-]|$)";
        let prefixes = PREFIXES.join("|");
        format!(
            "s%{root}{ends}%{MARK}\\1%g\n:again\ns%(^|{before})({prefixes}){ends}%\\1{MARK}\\2\\3%\ntagain\ns%{MARK}%{}%g\n",
            self.root
        )
    }

    /// The pattern of a shell's `case` for words that may name a path of the node.
    pub(super) fn case_candidates() -> String {
        PREFIXES.map(|prefix| format!("*{prefix}*")).join(" | ")
    }

    /// The pattern of a shell's `case` for words that begin with a path of the node.
    pub(super) fn case_beginnings() -> String {
        PREFIXES
            .map(|prefix| format!("{prefix} | {prefix}/*"))
            .join(" | ")
    }
}

/// What follows `prefix` in `text`, if the text begins with it and the name ends there.
fn name_end<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let after = text.strip_prefix(prefix)?;
    let in_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (!after.starts_with(in_name)).then_some(after)
}
