//! Mail: a message as RFC 5322 has it, its text in base64, so that no line of it can be taken for anything else.

use super::{Payload, Room, headline, message};
use crate::drift::Notice;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Of the text. Bytes.
const LIMIT: usize = 500_000;
/// Characters of a line of base64.
const LINE: usize = 76;
/// Characters of a subject.
const SUBJECT: usize = 120;
/// Bytes of a word of a subject that is encoded: its line has 76 characters at most, with all that stands around it.
const WORD: usize = 39;

pub(super) fn render(notice: &Notice, to: &[String], from: Option<&str>) -> Payload {
    let message = message(notice, &Room { limit: LIMIT, size: |line| line.len() + 1, escape: str::to_owned });
    let mut mail = format!("To: {}\n", to.join(",\n "));
    mail.extend(from.map(|from| format!("From: {from}\n")));
    mail.push_str(&format!("Subject: {}\n", subject(&headline(notice))));
    mail.push_str("MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n");
    // Nobody's answering machine answers to it.
    mail.push_str("Auto-Submitted: auto-generated\n\n");
    let text = STANDARD.encode(format!("{}\n", message.text()));
    for line in text.as_bytes().chunks(LINE) {
        // Base64 is ASCII.
        mail.push_str(&String::from_utf8_lossy(line));
        mail.push('\n');
    }
    Payload { body: mail, left_out: message.left_out }
}

/// Returns a subject in words that any relay takes (RFC 2047).
fn subject(text: &str) -> String {
    let text: String = text.chars().take(SUBJECT).collect();
    if text.chars().all(|c| c.is_ascii_graphic() || c == ' ') && !text.contains("=?") {
        return text;
    }
    let mut words: Vec<String> = Vec::new();
    for c in text.chars() {
        match words.last_mut() {
            Some(word) if word.len() + c.len_utf8() <= WORD => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    let encoded: Vec<String> = words.iter().map(|word| format!("=?UTF-8?B?{}?=", STANDARD.encode(word))).collect();
    encoded.join("\n ")
}
