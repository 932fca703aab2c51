//! WeCom: a group bot takes plain text. Its Markdown allows twice the size, but host text in it could mention users.

use super::{MessageLimit, NotifyPayload, message};
use crate::drift::DriftNotice;
use serde_json::json;

/// Maximum bytes of the text.
const LIMIT: usize = 2048;

pub(super) fn render(notice: &DriftNotice) -> NotifyPayload {
    let message = message(notice, &MessageLimit { limit: LIMIT, size: |line| line.len() + 1, escape: str::to_owned });
    let body = json!({ "msgtype": "text", "text": { "content": message.text() } });
    NotifyPayload { body: body.to_string(), left_out: message.left_out }
}
