//! DingTalk: a custom bot takes plain text. `at` is empty, so no user is mentioned.

use super::{MessageLimit, NotifyPayload, json_bytes, message};
use crate::drift::DriftNotice;
use serde_json::json;

/// Maximum bytes of the text. A message has at most 20,000 bytes, including the JSON around the text.
const LIMIT: usize = 19_500;

pub(super) fn render(notice: &DriftNotice) -> NotifyPayload {
    let message = message(notice, &MessageLimit { limit: LIMIT, size: json_bytes, escape: str::to_owned });
    let body = json!({ "msgtype": "text", "text": { "content": message.text() }, "at": { "isAtAll": false } });
    NotifyPayload { body: body.to_string(), left_out: message.left_out }
}
