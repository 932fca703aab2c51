//! Slack: an incoming webhook takes text. Formatting is off, so only three characters need escaping.

use super::{MessageLimit, NotifyPayload, message};
use crate::drift::DriftNotice;
use serde_json::json;

/// Slack cuts longer texts. Characters.
const LIMIT: usize = 4000;

pub(super) fn render(notice: &DriftNotice) -> NotifyPayload {
    let room = MessageLimit { limit: LIMIT, size: |line| line.chars().count() + 1, escape };
    let message = message(notice, &room);
    let body = json!({
        "text": message.text(), "mrkdwn": false, "link_names": false, "unfurl_links": false, "unfurl_media": false,
    });
    NotifyPayload { body: body.to_string(), left_out: message.left_out }
}

/// Escapes `&`, `<` and `>`: `<!channel>` and links work even if formatting is off.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
