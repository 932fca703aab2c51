//! Notifications about changed drift findings: one common text, and one module per service for its grammar.
//!
//! Architecture Invariant: rendering is pure and has no access to addresses or tokens. Text from hosts is escaped for
//! each service and cannot act as markup.

mod dingtalk;
mod email;
mod feishu;
mod message;
mod slack;
#[cfg(test)]
mod tests;
mod webhook;
mod wecom;

pub use message::{NotifyPayload, summarize_notice};

use crate::config::NotifyService;
use crate::drift::DriftNotice;

/// Renders a notice for a service.
pub fn render_notice(service: &NotifyService, notice: &DriftNotice) -> NotifyPayload {
    match service {
        NotifyService::Webhook { .. } => webhook::render(notice),
        NotifyService::Slack { .. } => slack::render(notice),
        NotifyService::Feishu { .. } => feishu::render(notice),
        NotifyService::DingTalk { .. } => dingtalk::render(notice),
        NotifyService::WeCom { .. } => wecom::render(notice),
        NotifyService::Email { to, from, .. } => email::render(notice, to, from.as_deref()),
    }
}
