//! A custom webhook: the notice as JSON (`schemas/drift-notice.json`).

use super::message::NotifyPayload;
use crate::drift::{DriftNotice, DriftNoticeItem};

/// A size that servers commonly accept. Bytes.
const MAX_BODY_BYTES: usize = 1_000_000;

pub(super) fn render(notice: &DriftNotice) -> NotifyPayload {
    fit_notice(notice, MAX_BODY_BYTES)
}

/// Returns the notice with as many findings as fit, new ones first.
pub(super) fn fit_notice(notice: &DriftNotice, limit: usize) -> NotifyPayload {
    let mut told = DriftNotice { new: Vec::new(), changed: Vec::new(), resolved: Vec::new(), ..notice.clone() };
    // Reserves space for the number of omitted findings.
    let mut left = limit.saturating_sub(notice_json(&told).len() + 32);
    for (from, to) in
        [(&notice.new, &mut told.new), (&notice.changed, &mut told.changed), (&notice.resolved, &mut told.resolved)]
    {
        for item in from {
            let size = item_json_size(item);
            if size > left {
                // After a finding that does not fit, later ones are omitted too.
                left = 0;
                told.left_out += 1;
                continue;
            }
            left -= size;
            to.push(item.clone());
        }
    }
    NotifyPayload { left_out: told.left_out, body: notice_json(&told) }
}

fn notice_json(notice: &DriftNotice) -> String {
    // Text, numbers and names always serialize.
    serde_json::to_string(notice).unwrap_or_default()
}

fn item_json_size(item: &DriftNoticeItem) -> usize {
    // One for the comma.
    serde_json::to_string(item).map_or(usize::MAX / 2, |text| text.len()) + 1
}
