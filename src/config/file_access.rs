//! Reads files of the inventory, and reports those that cannot be read.

use crate::diag::{Diag, DiagCode, Span};
use camino::{Utf8Path, Utf8PathBuf};
use std::io::Read;

/// Files larger than this are not read. Bytes.
pub(super) const MAX_FILE: u64 = 64 << 20;

/// Resolves a path of an input file.
///
/// # Errors
/// A diagnostic at `span`: the path leaves the inventory's tree, or cannot be read.
pub(super) fn confine_path(root: &Utf8Path, text: &str, span: Span) -> Result<Utf8PathBuf, Box<Diag>> {
    resolve_confined(root, &root.join(text)).map_err(|refusal| Box::new(refusal.to_diag(root, text, text, span)))
}

/// Why a path cannot be used.
pub(super) enum PathRefusal {
    /// It leaves the inventory's tree; through a symbolic link or not.
    Escapes { by_link: bool },
    /// It cannot be resolved.
    Unreadable(std::io::Error),
}

impl PathRefusal {
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable(error) if error.kind() == std::io::ErrorKind::NotFound)
    }

    /// Returns the diagnostic for a path that is `shown` in it: as written, or `text` relative to `root`.
    pub fn to_diag(&self, root: &Utf8Path, text: &str, shown: &str, span: Span) -> Diag {
        match self {
            Self::Escapes { by_link } => {
                let message = format!("`{shown}` leaves the inventory's tree");
                let diag = Diag::error(DiagCode::Escape, message).with_span(span);
                if *by_link { diag.note("a symbolic link leads out of it") } else { diag }
            }
            Self::Unreadable(error) => {
                let diag = build_unreadable_diag(shown, &describe_io_error(error), Some(span));
                if self.is_missing() { diag.hint(explain_missing(root, text)) } else { diag }
            }
        }
    }
}

/// Resolves a path and its links, all inside of `root`.
pub(super) fn resolve_confined(root: &Utf8Path, joined: &Utf8Path) -> Result<Utf8PathBuf, PathRefusal> {
    if !is_lexically_inside(root, joined) {
        return Err(PathRefusal::Escapes { by_link: false });
    }
    let path = joined.canonicalize_utf8().map_err(PathRefusal::Unreadable)?;
    match path.starts_with(root) {
        true => Ok(path),
        false => Err(PathRefusal::Escapes { by_link: true }),
    }
}

/// Returns the hint for a missing file: one with a similar name, or where it was searched. Names of a folder outside the tree are
/// not shown.
fn explain_missing(root: &Utf8Path, text: &str) -> String {
    let joined = root.join(text);
    let folder = joined.parent().and_then(|folder| folder.canonicalize_utf8().ok());
    let inside = folder.is_some_and(|folder| folder.starts_with(root));
    match find_similar_file(&joined, |_| true).filter(|_| inside) {
        Some(near) => format!("did you mean `{near}` in the same folder?"),
        None => {
            let searched = joined.strip_prefix(root).unwrap_or(&joined);
            format!("searched: `{searched}`, in the folder of the inventory")
        }
    }
}

/// Checks the path lexically before it is resolved, so that the message does not reveal which files exist elsewhere.
pub(super) fn is_lexically_inside(root: &Utf8Path, joined: &Utf8Path) -> bool {
    let mut depth = Vec::new();
    for part in joined.components() {
        match part {
            camino::Utf8Component::ParentDir => {
                depth.pop();
            }
            camino::Utf8Component::CurDir => {}
            other => depth.push(other),
        }
    }
    depth.iter().collect::<Utf8PathBuf>().starts_with(root)
}

pub(super) fn build_unreadable_diag(shown: &str, why: &str, span: Option<Span>) -> Diag {
    let diag = Diag::error(DiagCode::Unreadable, format!("`{shown}` cannot be read: {why}"));
    match span {
        Some(span) => diag.with_span(span),
        None => diag,
    }
}

/// Reports whether a file name is one of YAML.
pub(super) fn is_yaml_name(name: &str) -> bool {
    name.ends_with(".yaml") || name.ends_with(".yml")
}

/// Returns the file with the most similar name in the folder of a missing file, of those that `is_candidate` accepts.
pub(super) fn find_similar_file(missing: &Utf8Path, is_candidate: impl Fn(&str) -> bool) -> Option<String> {
    if missing.exists() {
        return None;
    }
    let typed = missing.file_name()?;
    let folder = missing.parent().filter(|folder| !folder.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let mut names: Vec<String> = folder
        .read_dir_utf8()
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_owned()))
        // A link to nothing is listed, too.
        .filter(|name| name != typed && is_candidate(name))
        .collect();
    names.sort_unstable();
    let near = crate::diag::did_you_mean(typed, names.iter().map(String::as_str));
    let same_stem = || names.iter().find(|name| Utf8Path::new(name).file_stem() == missing.file_stem());
    near.or_else(|| same_stem().map(String::as_str)).map(str::to_owned)
}

/// Reads a text file.
///
/// # Errors
/// Why the file cannot be read, as a lowercase fragment.
pub(super) fn read_text_file(path: &Utf8Path) -> Result<String, String> {
    let meta = fs_err::metadata(path).map_err(|error| describe_io_error(&error))?;
    if meta.is_dir() {
        return Err("it is a directory".to_owned());
    }
    if !meta.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    if meta.len() > MAX_FILE {
        return Err(format!("it is larger than {} MiB", MAX_FILE >> 20));
    }
    // The file may grow after the check, and files in /proc report no size.
    let mut bytes = Vec::new();
    let file = fs_err::File::open(path).map_err(|error| describe_io_error(&error))?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| describe_io_error(&error))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("it is larger than {} MiB", MAX_FILE >> 20));
    }
    String::from_utf8(bytes).map_err(|error| format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()))
}

/// Returns the operating system's text for an error, without its number.
pub(super) fn describe_io_error(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::StorageFull => "no space left on this machine".to_owned(),
        _ => error.to_string(),
    }
}
