//! Atomic file writes: readers see the whole file or none of it.

use super::error::CliError;
use camino::Utf8Path;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;

/// Replaces the content of the file at `path` with the output of `write`. A path that is not a regular file (a pipe,
/// `/dev/stdout`) is written in place. The target of a symbolic link is replaced, not the link.
///
/// # Errors
/// The file cannot be created or written; the old file is then unchanged.
pub fn replace_file(path: &Utf8Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    replace_with_mode(path, SHARED_MODE, write)
}

/// Like [`replace_file`], with a file that only its owner can read.
pub fn replace_private_file(
    path: &Utf8Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    replace_with_mode(path, PRIVATE_MODE, write)
}

/// Maximum size in bytes of a plan or a recording: those of 10,000 hosts take a few hundred MiB.
const MAX_READ_BYTES: u64 = 1 << 30;

/// Reads a text file that another user may have written; stops at the size limit, so endless devices and pipes fail.
///
/// # Errors
/// The file cannot be read or is too large.
pub fn read_text(path: &Utf8Path) -> io::Result<String> {
    read_limited(path, MAX_READ_BYTES)
}

fn read_limited(path: &Utf8Path, limit: u64) -> io::Result<String> {
    let too_large = || io::Error::other(format!("larger than {} MiB", limit >> 20));
    let file = fs_err::File::open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.len() > limit {
        return Err(too_large());
    }
    let mut text = String::new();
    file.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit { Err(too_large()) } else { Ok(text) }
}

/// Permission bits before the umask, which applies as for a file created by a shell.
const SHARED_MODE: u32 = 0o666;
const PRIVATE_MODE: u32 = 0o600;

fn replace_with_mode(
    path: &Utf8Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    let replaced = match fs_err::metadata(path) {
        Ok(meta) if !meta.is_file() => write_in_place(path, write),
        Ok(_) => fs_err::canonicalize(path).and_then(|path| write_atomically(&path, mode, write)),
        Err(_) => write_atomically(path.as_std_path(), mode, write),
    };
    replaced.map_err(|error| unwritable_error(path, error))
}

/// Creates a file atomically. Returns false if the path exists; the existing file is unchanged.
///
/// # Errors
/// The file cannot be written.
pub fn create_file(path: &Utf8Path, text: &str) -> Result<bool, CliError> {
    let written = create_temp_file(path.as_std_path(), SHARED_MODE).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        Ok(file.persist_noclobber(path))
    });
    match written {
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Ok(Err(error)) => Err(write_error(path, error.error)),
        Err(error) => Err(write_error(path, error)),
    }
}

/// Checks that [`replace_file`] can write to `path`, before work starts whose result would be lost.
///
/// # Errors
/// The path is a directory, or no file can be created next to it.
pub fn check_writable(path: &Utf8Path) -> Result<(), CliError> {
    let checked = match fs_err::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(meta) if !meta.is_file() => Ok(()),
        Ok(_) => fs_err::canonicalize(path).and_then(|path| tempfile::tempfile_in(parent_folder(&path)).map(drop)),
        Err(_) => tempfile::tempfile_in(parent_folder(path.as_std_path())).map(drop),
    };
    checked.map_err(|error| unwritable_error(path, error))
}

fn unwritable_error(path: &Utf8Path, error: io::Error) -> CliError {
    write_error(path, error).hint("choose a file in an existing, writable directory")
}

fn write_error(path: &Utf8Path, error: io::Error) -> CliError {
    CliError::unexpected(anyhow::Error::new(error).context(format!("cannot write `{path}`")))
}

fn parent_folder(path: &std::path::Path) -> &std::path::Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."))
}

fn write_in_place(path: &Utf8Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut file = io::BufWriter::new(fs_err::OpenOptions::new().write(true).open(path)?);
    write(&mut file)?;
    file.flush()
}

fn write_atomically(
    path: &std::path::Path,
    mode: u32,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffered = io::BufWriter::new(create_temp_file(path, mode)?);
    write(&mut buffered)?;
    let file = buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Opens a temporary file next to `path`.
fn create_temp_file(path: &std::path::Path, mode: u32) -> io::Result<tempfile::NamedTempFile> {
    let mode = std::fs::Permissions::from_mode(mode);
    tempfile::Builder::new().prefix(".forge-").permissions(mode).tempfile_in(parent_folder(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, camino::Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = camino::Utf8Path::from_path(folder.path()).unwrap().join("out.json");
        (folder, path)
    }

    #[test]
    fn failed_write_keeps_the_old_file_and_no_temporary_file() {
        let (folder, path) = folder();
        replace_file(&path, |out| out.write_all(b"old")).unwrap();
        let failed =
            replace_file(&path, |out| out.write_all(b"half").and_then(|()| Err(io::Error::other("disk full"))));
        assert!(failed.is_err());
        assert_eq!(fs_err::read(&path).unwrap(), b"old");
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn existing_file_is_not_overwritten() {
        let (folder, path) = folder();
        assert!(create_file(&path, "old").unwrap());
        assert!(!create_file(&path, "new").unwrap());
        assert_eq!(fs_err::read(&path).unwrap(), b"old");
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn private_file_gets_mode_0600_even_if_it_existed() {
        let (_folder, path) = folder();
        replace_file(&path, |out| out.write_all(b"old")).unwrap();
        replace_private_file(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs_err::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn files_and_devices_above_the_limit_are_not_read() {
        let (_folder, path) = folder();
        let limit = 2 << 20;
        let said =
            |path: &Utf8Path| read_limited(path, limit).map(|text| text.len()).map_err(|error| error.to_string());
        fs_err::write(&path, vec![b'x'; 2 << 20]).unwrap();
        assert_eq!(said(&path), Ok(2 << 20));
        fs_err::write(&path, vec![b'x'; (2 << 20) + 1]).unwrap();
        assert_eq!(said(&path), Err("larger than 2 MiB".to_owned()));
        // Endless, and reports no size.
        assert_eq!(said(Utf8Path::new("/dev/zero")), Err("larger than 2 MiB".to_owned()));
    }

    #[test]
    fn symlink_is_followed_and_kept() {
        let (folder, path) = folder();
        let link = camino::Utf8Path::from_path(folder.path()).unwrap().join("link");
        replace_file(&path, |out| out.write_all(b"old")).unwrap();
        fs_err::os::unix::fs::symlink(&path, &link).unwrap();
        replace_file(&link, |out| out.write_all(b"new")).unwrap();
        assert!(fs_err::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs_err::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_device_is_written_to_and_not_replaced() {
        replace_file(Utf8Path::new("/dev/null"), |out| out.write_all(b"gone")).unwrap();
        assert!(!fs_err::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn writability_check_leaves_no_file() {
        let (folder, path) = folder();
        assert!(check_writable(&path).is_ok() && check_writable(Utf8Path::new("/dev/null")).is_ok());
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), 0);
        assert!(check_writable(path.parent().unwrap()).is_err());
        assert!(check_writable(Utf8Path::new("/nonexistent/forge/x.json")).is_err());
    }

    #[test]
    fn missing_directory_error_names_the_path() {
        let error = replace_file(Utf8Path::new("/nonexistent/forge/x.json"), |_| Ok(())).unwrap_err();
        let mut said = Vec::new();
        error.write_to(&mut said).unwrap();
        let said = anstream::adapter::strip_str(std::str::from_utf8(&said).unwrap()).to_string();
        assert!(said.starts_with("error: cannot write `/nonexistent/forge/x.json`: "), "{said}");
    }
}
