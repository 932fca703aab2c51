//! The request that ends an ssh master with all of its channels, as `ssh -O exit` sends it: a process less per host.
//!
//! The messages are those of OpenSSH's `PROTOCOL.mux`: a length, a type and its fields, all 32-bit numbers in network
//! order.

use std::io;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// `MUX_MSG_HELLO`, with version 4.
const HELLO: [u32; 3] = [8, 0x0000_0001, 4];
/// `MUX_C_TERMINATE`, as request 0.
const TERMINATE: [u32; 3] = [8, 0x1000_0005, 0];
/// Type of the answer `MUX_S_OK`.
const OK: u32 = 0x8000_0001;
/// Maximum bytes of an answer.
const ANSWER_CAP: u32 = 4096;

/// Asks the master that listens on `socket` to exit. It also closes channels whose program hangs; the other way to end it,
/// which the library offers, waits for them.
///
/// # Errors
/// No master listens on the socket, or it refuses.
pub(super) async fn request_exit(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket).await?;
    let request: Vec<u8> = HELLO.into_iter().chain(TERMINATE).flat_map(u32::to_be_bytes).collect();
    stream.write_all(&request).await?;
    let hello = read_type(&mut stream).await?;
    let answer = read_type(&mut stream).await?;
    match (hello, answer) {
        (hello, OK) if hello == HELLO[1] => Ok(()),
        _ => Err(io::Error::other(format!("the master answered {answer:#x}"))),
    }
}

/// Reads one message and returns its type.
async fn read_type(stream: &mut UnixStream) -> io::Result<u32> {
    let length = stream.read_u32().await?;
    if !(4..=ANSWER_CAP).contains(&length) {
        return Err(io::Error::other("the master's answer has an impossible length"));
    }
    let kind = stream.read_u32().await?;
    let mut fields = vec![0; length as usize - 4];
    stream.read_exact(&mut fields).await?;
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    /// Sends `answers` to whoever connects. Returns what it was sent, and the result of the request.
    async fn exchange(answers: &[u32]) -> (Vec<u8>, io::Result<()>) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("master");
        let listener = UnixListener::bind(&socket).unwrap();
        let answers: Vec<u8> = answers.iter().flat_map(|word| word.to_be_bytes()).collect();
        let master = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut seen = vec![0; 24];
            stream.read_exact(&mut seen).await.unwrap();
            stream.write_all(&answers).await.unwrap();
            seen
        };
        tokio::join!(master, request_exit(&socket))
    }

    #[tokio::test]
    async fn master_is_asked_to_terminate() {
        // As OpenSSH 9.2 answers `ssh -O exit`.
        let (seen, done) = exchange(&[8, 1, 4, 8, 0x8000_0001, 0]).await;
        assert!(done.is_ok(), "{done:?}");
        assert_eq!(seen, [0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 8, 0x10, 0, 0, 5, 0, 0, 0, 0]);
    }

    #[tokio::test]
    async fn other_answers_are_errors() {
        for answers in [&[8, 1, 4, 8, 0x8000_0003, 0][..], &[8, 1, 4, 1], &[8, 1, 4], &[u32::MAX, 1]] {
            let (_, done) = exchange(answers).await;
            assert!(done.is_err(), "{answers:?}");
        }
        assert!(request_exit(Path::new("/nonexistent")).await.is_err());
    }
}
