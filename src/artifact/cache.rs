//! The cache of artifacts on the controller: files under their SHA-256, and what is still coming beside them.

use super::Sha256;
use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use sha2::Digest;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

/// A folder with a file per digest.
#[derive(Clone, Debug)]
pub struct Cache {
    root: Utf8PathBuf,
}

/// A file of the cache, whose digest was checked when it was put there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub path: Utf8PathBuf,
    pub sha256: Sha256,
    pub bytes: u64,
}

/// A file that is still coming. Who holds it is the only one that writes it.
#[derive(Debug)]
pub(super) struct Part {
    pub file: File,
    path: Utf8PathBuf,
}

/// Bytes read at once.
const CHUNK: usize = 256 * 1024;

impl Cache {
    /// Returns the cache in `root`; nothing is made yet.
    pub fn new(root: impl Into<Utf8PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        self.root.join(name)
    }

    /// Returns the file with that digest, if it is there.
    ///
    /// # Errors
    /// The cache cannot be looked at.
    pub fn find(&self, sha256: &Sha256) -> io::Result<Option<Held>> {
        let path = self.path(sha256.as_str());
        match fs::metadata(&path) {
            Ok(meta) => Ok(Some(Held { path, sha256: sha256.clone(), bytes: meta.len() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a file of the cache again and takes it away if it is not what its name says: disks and people err.
    ///
    /// # Errors
    /// It cannot be read or removed.
    pub fn check(&self, sha256: &Sha256) -> io::Result<Option<Held>> {
        let Some(held) = self.find(sha256)? else { return Ok(None) };
        if digest(fs::File::open(&held.path)?.into_file(), u64::MAX)? == *sha256 {
            return Ok(Some(held));
        }
        fs::remove_file(&held.path)?;
        Ok(None)
    }

    /// Opens the place of a file that is to come, with what an earlier try left. Waits while another run writes it.
    /// `key` names it: the digest where it is known.
    ///
    /// # Errors
    /// The folder or the file cannot be made or locked.
    pub(super) fn part(&self, key: &str) -> io::Result<Part> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        let path = self.path(&format!("{key}.part"));
        loop {
            let file = File::options().read(true).append(true).create(true).mode(0o600).open(&path)?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            // Who held it before may have finished and renamed it.
            let same = fs::metadata(&path).is_ok_and(|there| is_same(&there, &file));
            if same {
                return Ok(Part { file, path });
            }
        }
    }

    /// Takes a part away that nobody goes on with.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn discard(&self, part: Part) -> io::Result<()> {
        fs::remove_file(&part.path)
    }

    /// Puts a part in its place under its digest.
    ///
    /// # Errors
    /// It cannot be synced or renamed.
    pub(super) fn keep(&self, part: Part, sha256: &Sha256) -> io::Result<Held> {
        let path = self.path(sha256.as_str());
        part.file.sync_all()?;
        fs::rename(&part.path, &path)?;
        let bytes = part.file.metadata()?.len();
        Ok(Held { path, sha256: sha256.clone(), bytes })
    }
}

fn is_same(there: &std::fs::Metadata, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

impl Part {
    /// Returns how many bytes came so far.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Throws away what came.
    pub fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)
    }

    /// Returns the digest of what came so far.
    pub fn digest(&self) -> io::Result<Sha256> {
        digest(self.file.try_clone()?, u64::MAX)
    }
}

impl Held {
    /// Returns the digest of the first `bytes` of the file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn digest_of_first(&self, bytes: u64) -> io::Result<Sha256> {
        digest(fs::File::open(&self.path)?.into_file(), bytes)
    }
}

/// Returns the digest of the first `bytes` of a file.
pub(super) fn digest(mut file: File, bytes: u64) -> io::Result<Sha256> {
    file.seek(SeekFrom::Start(0))?;
    let mut file = file.take(bytes);
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Sha256::of(hasher)),
            count => hasher.update(&buffer[..count]),
        }
    }
}
