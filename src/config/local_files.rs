//! Files of the inventory's tree that recipes refer to. They are read at load, so that a plan does no file I/O.

use super::file_access::{build_unreadable_diag, describe_io_error, resolve_confined};
use crate::diag::{Diag, Span};
use crate::model::Value;
use camino::{Utf8Path, Utf8PathBuf};
use std::collections::BTreeMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum size of a file that is sent to a host through a script. Bytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// Every local file that was read, by the recipe's folder and the file's name.
#[derive(Debug, Default)]
pub(super) struct LocalFileStore {
    root: Utf8PathBuf,
    read: RwLock<BTreeMap<(Utf8PathBuf, String), Result<Value, FileRefusal>>>,
    /// Set at the end of a load: a plan does no file I/O.
    closed: AtomicBool,
    /// Canonical paths of files that are too large to be read at load.
    found: RwLock<BTreeMap<(Utf8PathBuf, String), Result<Utf8PathBuf, FileRefusal>>>,
}

/// An error without its place: several steps may refer to one file.
type FileRefusal = Diag;

impl LocalFileStore {
    pub fn new(root: Utf8PathBuf) -> Self {
        Self { root, ..Self::default() }
    }

    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// Ends reading: from now on, only files that were read before are available.
    pub fn close_reads(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Returns the text of a file, or `{ base64: … }` if its bytes are not text. Names are relative to `folder`, the
    /// recipe's folder.
    ///
    /// # Errors
    /// The file is outside the tree, does not exist, or was not read at load.
    pub fn get_content(&self, folder: &Utf8Path, name: &str, span: Span) -> Result<Value, Box<Diag>> {
        let key = (folder.to_owned(), name.to_owned());
        let held = self.read.read().ok().and_then(|map| map.get(&key).cloned());
        let content = match held {
            Some(content) => content,
            None if self.closed.load(Ordering::Relaxed) => {
                return Err(Box::new(build_unreadable_diag(
                    name,
                    "it was not read when the inventory was loaded",
                    Some(span),
                )));
            }
            None => {
                let content = self.read_content(folder, name, span).map_err(|diag| *diag);
                match self.read.write() {
                    // Another thread may have read it first: all see the same content.
                    Ok(mut map) => map.entry(key).or_insert(content).clone(),
                    Err(_) => content,
                }
            }
        };
        content.map_err(|diag| Box::new(diag.with_span(span)))
    }

    /// Returns every file that was read, with its content, by the requested path.
    pub fn list_contents(&self) -> Vec<(Utf8PathBuf, Value)> {
        let Ok(read) = self.read.read() else { return Vec::new() };
        let held = read.iter().filter_map(|((folder, name), content)| Some((folder.join(name), content.clone().ok()?)));
        held.collect()
    }

    /// Returns the canonical path of a file without reading it.
    ///
    /// # Errors
    /// The file is outside the tree, is not a regular file, or was not located at load.
    pub fn locate_file(&self, folder: &Utf8Path, name: &str, span: Span) -> Result<Utf8PathBuf, Box<Diag>> {
        let key = (folder.to_owned(), name.to_owned());
        let held = self.found.read().ok().and_then(|map| map.get(&key).cloned());
        let found = match held {
            Some(found) => found,
            None if self.closed.load(Ordering::Relaxed) => {
                return Err(Box::new(build_unreadable_diag(
                    name,
                    "it was not located when the inventory was loaded",
                    Some(span),
                )));
            }
            None => {
                let found = self.find_file(folder, name, span).map_err(|diag| *diag);
                if let Ok(mut map) = self.found.write() {
                    map.insert(key, found.clone());
                }
                found
            }
        };
        found.map_err(|diag| Box::new(diag.with_span(span)))
    }

    /// Resolves the name of a file as written in a recipe of `folder`.
    fn resolve_file(&self, folder: &Utf8Path, name: &str, span: Span) -> Result<Utf8PathBuf, Box<Diag>> {
        let joined = self.root.join(folder).join(name);
        resolve_confined(&self.root, &joined).map_err(|refusal| {
            let diag = refusal.to_diag(&self.root, folder.join(name).as_str(), name, span);
            // Built-in recipes have no folder of their own.
            let explains = refusal.is_missing() && folder != self.root;
            Box::new(if explains {
                diag.note("paths in a recipe are relative to the folder of the recipe")
            } else {
                diag
            })
        })
    }

    fn find_file(&self, folder: &Utf8Path, name: &str, span: Span) -> Result<Utf8PathBuf, Box<Diag>> {
        let path = self.resolve_file(folder, name, span)?;
        // A Helm chart may be a folder.
        match path.is_file() || path.join("Chart.yaml").is_file() {
            true => Ok(path),
            false => Err(Box::new(build_unreadable_diag(name, "it is not a regular file", Some(span)))),
        }
    }

    fn read_content(&self, folder: &Utf8Path, name: &str, span: Span) -> Result<Value, Box<Diag>> {
        let path = self.resolve_file(folder, name, span)?;
        let fail = |why: &str| Box::new(build_unreadable_diag(name, why, Some(span)));
        let meta = fs_err::metadata(&path).map_err(|error| fail(&describe_io_error(&error)))?;
        match (meta.is_file(), meta.len() <= MAX_FILE_BYTES) {
            (false, _) => return Err(fail("it is not a regular file")),
            (_, false) => return Err(fail(&format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20))),
            _ => {}
        }
        let bytes = fs_err::read(&path).map_err(|error| fail(&describe_io_error(&error)))?;
        Ok(decode_content(bytes))
    }
}

/// Returns the content of a file. Text that contains characters of secret placeholders is encoded as bytes.
fn decode_content(bytes: Vec<u8>) -> Value {
    let open = |text: &str| !text.contains(['\0', '\u{e000}', '\u{e001}']);
    match String::from_utf8(bytes) {
        Ok(text) if open(&text) => Value::from(text),
        Ok(text) => encode_base64(text.as_bytes()),
        Err(error) => encode_base64(error.as_bytes()),
    }
}

fn encode_base64(bytes: &[u8]) -> Value {
    let text = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes);
    serde_json::json!({ "base64": text })
}
