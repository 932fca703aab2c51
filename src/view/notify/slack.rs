//! Slack: an incoming webhook takes text. Formatting is off, so only three characters need escaping.

use super::message::{MessageLimit, NotifyPayload, fit_message};
use crate::drift::DriftNotice;
use serde_json::json;

/// Slack cuts longer texts. Characters.
const MAX_TEXT_CHARS: usize = 4000;

pub(super) fn render(notice: &DriftNotice) -> NotifyPayload {
    let room = MessageLimit { limit: MAX_TEXT_CHARS, size: |line| line.chars().count() + 1, escape: escape_slack };
    let message = fit_message(notice, &room);
    let body = json!({
        "text": message.to_text(), "mrkdwn": false, "link_names": false, "unfurl_links": false, "unfurl_media": false,
    });
    NotifyPayload { body: body.to_string(), left_out: message.left_out }
}

/// Escapes `&`, `<` and `>`: `<!channel>` and links work even if formatting is off.
fn escape_slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
