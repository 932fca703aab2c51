//! Mail: an RFC 5322 message with its text in base64, so that no line of the text is parsed as a header.

use super::message::{MessageLimit, NotifyPayload, fit_message, format_headline};
use crate::drift::DriftNotice;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum bytes of the text.
const MAX_TEXT_BYTES: usize = 500_000;
/// Characters of a base64 line.
const MAX_LINE_CHARS: usize = 76;
/// Maximum characters of a subject.
const MAX_SUBJECT_CHARS: usize = 120;
/// Maximum bytes of an encoded word of a subject. Its line, with the encoding around it, has at most 76 characters.
const MAX_ENCODED_WORD_BYTES: usize = 39;

pub(super) fn render(notice: &DriftNotice, to: &[String], from: Option<&str>) -> NotifyPayload {
    let message = fit_message(
        notice,
        &MessageLimit { limit: MAX_TEXT_BYTES, size: |line| line.len() + 1, escape: str::to_owned },
    );
    let mut mail = format!("To: {}\n", to.join(",\n "));
    mail.extend(from.map(|from| format!("From: {from}\n")));
    mail.push_str(&format!("Subject: {}\n", encode_subject(&format_headline(notice))));
    mail.push_str("MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n");
    // Suppresses automatic replies (RFC 3834).
    mail.push_str("Auto-Submitted: auto-generated\n\n");
    let text = STANDARD.encode(format!("{}\n", message.to_text()));
    for line in text.as_bytes().chunks(MAX_LINE_CHARS) {
        // Base64 is ASCII.
        mail.push_str(&String::from_utf8_lossy(line));
        mail.push('\n');
    }
    NotifyPayload { body: mail, left_out: message.left_out }
}

/// Encodes a subject for all relays (RFC 2047).
fn encode_subject(text: &str) -> String {
    let text: String = text.chars().take(MAX_SUBJECT_CHARS).collect();
    if text.chars().all(|c| c.is_ascii_graphic() || c == ' ') && !text.contains("=?") {
        return text;
    }
    let mut words: Vec<String> = Vec::new();
    for c in text.chars() {
        match words.last_mut() {
            Some(word) if word.len() + c.len_utf8() <= MAX_ENCODED_WORD_BYTES => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    let encoded: Vec<String> = words.iter().map(|word| format!("=?UTF-8?B?{}?=", STANDARD.encode(word))).collect();
    encoded.join("\n ")
}
