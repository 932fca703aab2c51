//! The artifact cache on the controller: files named by their SHA-256, and partial downloads.

use crate::model::Sha256Digest;
use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;
use sha2::Digest;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

/// A folder with one file per digest.
#[derive(Clone, Debug)]
pub struct ArtifactCache {
    root: Utf8PathBuf,
}

/// A file in the cache. Its digest was checked when it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedFile {
    /// Where the file is on this machine.
    pub path: Utf8PathBuf,
    /// The SHA-256 of the whole file.
    pub sha256: Sha256Digest,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// A partial download. Only the holder of its lock writes it.
#[derive(Debug)]
pub(super) struct PartialDownload {
    pub file: File,
    path: Utf8PathBuf,
}

/// Size of one read in bytes.
const READ_CHUNK_BYTES: usize = 256 * 1024;

impl ArtifactCache {
    /// Returns the cache in `root`; nothing is created yet.
    pub fn new(root: impl Into<Utf8PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the folder of the cache. It may not exist yet.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    fn file_path(&self, name: &str) -> Utf8PathBuf {
        self.root.join(name)
    }

    /// Returns the file with that digest, if it exists.
    ///
    /// # Errors
    /// The cache cannot be read.
    pub fn find_file(&self, sha256: &Sha256Digest) -> io::Result<Option<VerifiedFile>> {
        let path = self.file_path(sha256.as_str());
        match fs::metadata(&path) {
            Ok(meta) => Ok(Some(VerifiedFile { path, sha256: sha256.clone(), bytes: meta.len() })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks the digest of a cached file again and deletes the file if it does not match: disks fail, users err.
    ///
    /// # Errors
    /// The file cannot be read or deleted.
    pub fn recheck_file(&self, sha256: &Sha256Digest) -> io::Result<Option<VerifiedFile>> {
        let Some(held) = self.find_file(sha256)? else { return Ok(None) };
        if digest_file(fs::File::open(&held.path)?.into_file(), u64::MAX)? == *sha256 {
            return Ok(Some(held));
        }
        fs::remove_file(&held.path)?;
        Ok(None)
    }

    /// Opens a partial download, with the data of an earlier attempt. Waits while another run writes it. `key` names
    /// it: the digest, if it is known.
    ///
    /// # Errors
    /// The folder or the file cannot be created or locked.
    pub(super) fn open_partial(&self, key: &str) -> io::Result<PartialDownload> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        let path = self.file_path(&format!("{key}.part"));
        loop {
            let file = File::options().read(true).append(true).create(true).mode(0o600).open(&path)?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            // The previous lock holder may have finished and renamed the file.
            let same = fs::metadata(&path).is_ok_and(|there| is_same_file(&there, &file));
            if same {
                return Ok(PartialDownload { file, path });
            }
        }
    }

    /// Deletes a partial download that is no longer needed.
    ///
    /// # Errors
    /// The file cannot be deleted.
    pub(super) fn discard_partial(&self, part: PartialDownload) -> io::Result<()> {
        fs::remove_file(&part.path)
    }

    /// Moves a finished download to its digest.
    ///
    /// # Errors
    /// The file cannot be synced or renamed.
    pub(super) fn commit_partial(&self, part: PartialDownload, sha256: &Sha256Digest) -> io::Result<VerifiedFile> {
        let path = self.file_path(sha256.as_str());
        part.file.sync_all()?;
        fs::rename(&part.path, &path)?;
        let bytes = part.file.metadata()?.len();
        Ok(VerifiedFile { path, sha256: sha256.clone(), bytes })
    }
}

fn is_same_file(there: &std::fs::Metadata, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
}

impl PartialDownload {
    /// Returns the number of bytes received so far.
    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Discards the received bytes.
    pub fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)
    }

    /// Returns the digest of the received bytes.
    pub fn compute_digest(&self) -> io::Result<Sha256Digest> {
        digest_file(self.file.try_clone()?, u64::MAX)
    }
}

impl VerifiedFile {
    /// Returns the digest of the first `bytes` of the file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn digest_first_bytes(&self, bytes: u64) -> io::Result<Sha256Digest> {
        digest_file(fs::File::open(&self.path)?.into_file(), bytes)
    }
}

/// Returns the digest of the first `bytes` of a file.
pub(super) fn digest_file(mut file: File, bytes: u64) -> io::Result<Sha256Digest> {
    file.seek(SeekFrom::Start(0))?;
    let mut file = file.take(bytes);
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; READ_CHUNK_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(Sha256Digest::from_hasher(hasher)),
            count => hasher.update(&buffer[..count]),
        }
    }
}
