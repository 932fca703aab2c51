//! A file that follows a script on its stdin.

use camino::Utf8Path;
use std::io::{self, SeekFrom};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt};

/// Callback that receives the number of bytes of the file that are sent or were already on the other side.
pub type PayloadProgress = Box<dyn FnMut(u64) + Send>;

/// Bytes per read.
const CHUNK: usize = 128 * 1024;

/// The rest of a file, from a byte offset on.
pub struct FilePayload {
    file: File,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are written.
    at: usize,
    /// Bytes of the file that are written.
    done: u64,
    sent: PayloadProgress,
}

impl FilePayload {
    /// Opens a file at byte `from`; `sent` receives the progress.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn open(path: &Utf8Path, from: u64, sent: PayloadProgress) -> io::Result<Self> {
        let mut file = fs_err::tokio::File::open(path).await?.into_parts().0;
        file.seek(SeekFrom::Start(from)).await?;
        Ok(Self { file, buffer: Vec::new(), at: 0, done: from, sent })
    }

    /// Returns all remaining bytes.
    #[cfg(test)]
    pub(crate) async fn read_rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.file.read_to_end(&mut rest).await.unwrap();
        (self.sent)(self.done + rest.len() as u64);
        rest
    }

    /// Writes once; returns `false` when everything is written. Cancel-safe: a cancelled read stays in the file's own
    /// buffer.
    pub(super) async fn write_next(&mut self, pipe: &mut (dyn AsyncWrite + Send + Unpin)) -> io::Result<bool> {
        if self.at == self.buffer.len() {
            let mut next = vec![0; CHUNK];
            let count = self.file.read(&mut next).await?;
            next.truncate(count);
            (self.buffer, self.at) = (next, 0);
        }
        if self.buffer.is_empty() {
            return Ok(false);
        }
        let written = pipe.write(&self.buffer[self.at..]).await?;
        self.at += written;
        self.done += written as u64;
        (self.sent)(self.done);
        Ok(true)
    }
}
