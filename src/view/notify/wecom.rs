//! WeCom: a group bot takes plain text. Its Markdown allows twice the size, but host text in it could mention users.

use super::message::{MessageLimit, NotifyPayload, fit_message};
use crate::drift::DriftNotice;
use serde_json::json;

/// Maximum bytes of the text.
const MAX_TEXT_BYTES: usize = 2048;

pub(super) fn render(notice: &DriftNotice) -> NotifyPayload {
    let message = fit_message(
        notice,
        &MessageLimit { limit: MAX_TEXT_BYTES, size: |line| line.len() + 1, escape: str::to_owned },
    );
    let body = json!({ "msgtype": "text", "text": { "content": message.to_text() } });
    NotifyPayload { body: body.to_string(), left_out: message.left_out }
}
