//! A small mail server for tests: it records what it receives, and a test can replace any of its replies.

#![allow(dead_code, clippy::unwrap_used, reason = "not every test uses everything, and a panic fails the test")]

use super::server::{Stream, Wrap};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// Returns the reply to a command, or `None` for the usual one. The command is empty before the greeting, and `.` after
/// a mail.
pub type Answer = dyn Fn(&str) -> Option<&'static str> + Send + Sync;

/// A server that lives as long as the test's process.
pub struct SmtpServer {
    pub address: SocketAddr,
    commands: Arc<Mutex<Vec<String>>>,
    mails: Arc<Mutex<Vec<String>>>,
}

impl SmtpServer {
    /// Starts a server on 127.0.0.1 without encryption.
    pub fn start(answer: impl Fn(&str) -> Option<&'static str> + Send + Sync + 'static) -> Self {
        Self::start_on(Arc::new(|socket| Box::new(socket)), answer)
    }

    /// Starts a server whose connections are wrapped, for example in TLS.
    pub fn start_on(wrap: Wrap, answer: impl Fn(&str) -> Option<&'static str> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self { address: listener.local_addr().unwrap(), commands: Arc::default(), mails: Arc::default() };
        let (commands, mails, answer) = (server.commands.clone(), server.mails.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (commands, mails, answer, wrap) = (commands.clone(), mails.clone(), answer.clone(), wrap.clone());
                std::thread::spawn(move || talk(BufReader::new(wrap(socket)), &commands, &mails, answer.as_ref()));
            }
        });
        server
    }

    /// Returns the received commands.
    pub fn commands(&self) -> Vec<String> {
        self.commands.lock().unwrap().clone()
    }

    /// Returns the received mails as they were sent, without the final `.`.
    pub fn mails(&self) -> Vec<String> {
        self.mails.lock().unwrap().clone()
    }
}

/// Returns `None` once the client closes the connection.
fn talk(
    mut stream: BufReader<Box<dyn Stream>>,
    commands: &Mutex<Vec<String>>,
    mails: &Mutex<Vec<String>>,
    answer: &Answer,
) -> Option<()> {
    let mut command = String::new();
    loop {
        let reply = answer(&command).unwrap_or(match command.split(' ').next().unwrap_or_default() {
            "" => "220 mail.example ESMTP",
            "EHLO" => "250-mail.example\r\n250-8BITMIME\r\n250 AUTH PLAIN LOGIN",
            "AUTH" => "235 accepted",
            "DATA" => "354 send it",
            "QUIT" => "221 bye",
            _ => "250 ok",
        });
        stream.get_mut().write_all(format!("{reply}\r\n").as_bytes()).ok()?;
        stream.get_mut().flush().ok()?;
        if reply.starts_with("354") {
            mails.lock().unwrap().push(read_mail(&mut stream)?);
            command = ".".to_owned();
            continue;
        }
        command = read_line(&mut stream)?.trim_end().to_owned();
        commands.lock().unwrap().push(command.clone());
    }
}

fn read_mail(stream: &mut BufReader<Box<dyn Stream>>) -> Option<String> {
    let mut mail = String::new();
    loop {
        match read_line(stream)?.as_str() {
            ".\r\n" => return Some(mail),
            line => mail.push_str(line),
        }
    }
}

fn read_line(stream: &mut BufReader<Box<dyn Stream>>) -> Option<String> {
    let mut line = String::new();
    let count = stream.read_line(&mut line).ok()?;
    (count > 0).then_some(line)
}
