//! Notifications after a run of `forge drift`.

use super::backend::Backend;
use super::error::CliError;
use super::verb_context::VerbContext;
use crate::config::{DeferredSecret, MailTransport, NotifyRecipient, NotifyService, SmtpServer};
use crate::drift::{DriftNotification, DriftReport, NotificationState};
use crate::engine::{QueuedNotice, build_delivery};
use crate::model::SecretStore;
use crate::notify::{self, DeliveryRetryPolicy};
use crate::view::notify::{NotifyPayload, render_notice, summarize_notice};
use crate::view::{escape, format_count};
use anyhow::anyhow;
use futures_util::future::join_all;
use std::io::Write;

/// Whether to send notifications after a run.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct NotifyArgs {
    /// Send no notifications of `drift.notify`; the next run sends them
    #[arg(long, conflicts_with = "notify_dry_run")]
    pub no_notify: bool,
    /// Print the notifications of `drift.notify`, without secrets, instead of sending them
    #[arg(long, conflicts_with_all = ["observed", "history", "install_timer"])]
    pub notify_dry_run: bool,
}

impl NotifyArgs {
    /// Checks the flags against the declared recipients.
    ///
    /// # Errors
    /// A dry run without recipients.
    pub fn check_recipients(&self, recipients: &[NotifyRecipient]) -> Result<(), CliError> {
        match self.notify_dry_run && recipients.is_empty() {
            true => {
                let error = CliError::usage("`--notify-dry-run` requires `drift.notify` in the inventory");
                Err(error.hint("add `drift: { notify: [ { slack: { url: { env: SLACK_URL } } } ] }`"))
            }
            false => Ok(()),
        }
    }
}

/// Notifies the declared recipients of changes. Sends nothing for a recording, which describes an earlier state.
pub async fn notify_recipients<B: Backend>(
    cx: &VerbContext<'_, B>,
    args: NotifyArgs,
    project: &B::Project,
    drift: &DriftReport,
) -> Vec<DriftNotification> {
    let declared = &cx.backend.project(project).drift.notify;
    if declared.is_empty() || args.notify_dry_run || cx.settings.replay.observed.is_some() {
        return Vec::new();
    }
    let mut errands = match cx.backend.plan_notifications(project, drift, cx.settings) {
        // Recipients that are not notified now stay recorded as outstanding.
        Ok(_) | Err(_) if args.no_notify => return Vec::new(),
        Ok(errands) => errands,
        Err(why) => return declared.iter().map(|recipient| failed_notification(recipient, &why)).collect(),
    };
    let secrets = &cx.backend.project(project).secrets;
    let list = std::mem::take(&mut errands.list);
    let mut notified = join_all(list.iter().map(|errand| send_notification(cx, errand, secrets))).await;
    for told in notified.iter_mut().filter(|told| told.state == NotificationState::Told) {
        if let Err(why) = errands.mark_notified(&told.name) {
            told.state = NotificationState::Failed;
            told.why = Some(format!("sent, but not recorded, so the next run sends it again: {why}"));
        }
    }
    notified
}

async fn send_notification<B: Backend>(
    cx: &VerbContext<'_, B>,
    errand: &QueuedNotice,
    secrets: &SecretStore,
) -> DriftNotification {
    let QueuedNotice { recipient, notice: Some(notice) } = errand else {
        return build_notified(&errand.recipient, NotificationState::Quiet);
    };
    let NotifyPayload { body, left_out } = render_notice(&recipient.service, notice);
    let delivery = match build_delivery(&recipient.service, body, secrets, cx.backend.current_time()) {
        Ok(delivery) => delivery,
        Err(why) => return failed_notification(recipient, &why),
    };
    match notify::send_delivery(&delivery, &DeliveryRetryPolicy::default()).await {
        Ok(_) => {
            DriftNotification { items: notice.len(), left_out, ..build_notified(recipient, NotificationState::Told) }
        }
        Err(error) => {
            let tries =
                if error.tries > 1 { format!(" ({})", format_count(error.tries, "try")) } else { String::new() };
            failed_notification(recipient, &secrets.scrub_secrets(&format!("{}{tries}", error.why)))
        }
    }
}

fn build_notified(recipient: &NotifyRecipient, state: NotificationState) -> DriftNotification {
    let (name, service) = (recipient.name.clone(), recipient.service.name().to_owned());
    DriftNotification { name, service, state, why: None, items: 0, left_out: 0 }
}

fn failed_notification(recipient: &NotifyRecipient, why: &str) -> DriftNotification {
    DriftNotification { why: Some(why.to_owned()), ..build_notified(recipient, NotificationState::Failed) }
}

/// Reports on stderr which notifications were sent and which failed.
pub fn report_notified<B: Backend>(cx: &VerbContext<'_, B>, notified: &[DriftNotification]) {
    let mut err = (cx.console.err)();
    let quiet = cx.settings.detail == crate::view::progress::ProgressDetail::Quiet;
    for one in notified {
        let who = format!("`{}` ({})", one.name, one.service);
        // Ignore a closed stderr: no other stream could report it.
        let _ = match (one.state, &one.why) {
            (NotificationState::Told, _) if !quiet => {
                let cut = if one.left_out > 0 { format!(", {} left out", one.left_out) } else { String::new() };
                writeln!(err, "notified {who}: {}{cut}", format_count(one.items, "finding"))
            }
            (NotificationState::Failed, why) => {
                let why = why.as_deref().unwrap_or("unknown reason");
                let style = anstyle::AnsiColor::Red.on_default().bold();
                writeln!(err, "{style}error:{style:#} cannot notify {who}: {}", escape::escape_line(why)).and_then(
                    |()| writeln!(err, "  hint: the findings are valid; the next run sends the notification again"),
                )
            }
            _ => Ok(()),
        };
    }
}

/// Returns the notifications that would be sent, as text.
///
/// # Errors
/// The history cannot be read.
pub fn preview_notifications<B: Backend>(
    cx: &VerbContext<'_, B>,
    project: &B::Project,
    drift: &DriftReport,
) -> Result<String, CliError> {
    let errands = cx.backend.plan_notifications(project, drift, cx.settings);
    let errands = errands.map_err(|why| CliError::unexpected(anyhow!("cannot prepare the notifications: {why}")))?;
    Ok(errands.list.iter().map(format_preview).collect())
}

fn format_preview(errand: &QueuedNotice) -> String {
    let NotifyRecipient { name, service } = &errand.recipient;
    let head = format!("\nnotify: `{name}` ({}) {}", service.name(), format_address(service));
    let Some(notice) = &errand.notice else { return format!("{head}: nothing to send\n") };
    let NotifyPayload { body, left_out } = render_notice(service, notice);
    let cut = if left_out > 0 { format!("; {left_out} left out") } else { String::new() };
    let lines: String = escape::escape_block(&body).map(|line| format!("  {line}\n")).collect();
    format!("{head}: {}{cut}\n{lines}", escape::escape_line(&summarize_notice(notice)))
}

/// Returns the destination of a message, with secrets masked.
fn format_address(service: &NotifyService) -> String {
    let masked = |secret: &DeferredSecret| match &secret.value {
        Ok(_) => format!("(secret {})", secret.label),
        Err(why) => format!("(secret {}: {why})", secret.label),
    };
    let with = |what: &str, secret: &Option<DeferredSecret>| {
        secret.as_ref().map(|secret| format!(", {what} {}", masked(secret))).unwrap_or_default()
    };
    let text = match service {
        NotifyService::Webhook { url, token } => format!("to {}{}", masked(url), with("token", token)),
        NotifyService::Slack { url } | NotifyService::WeCom { url } => format!("to {}", masked(url)),
        NotifyService::Feishu { url, secret } | NotifyService::DingTalk { url, secret } => {
            format!("to {}{}", masked(url), with("signed with", secret))
        }
        NotifyService::Email { transport: MailTransport::Sendmail(program), .. } => format!("by {program}"),
        NotifyService::Email { transport: MailTransport::Smtp(server), .. } => {
            let SmtpServer { host, port, tls, login } = server;
            let login = login.as_ref().map(|it| format!(", as {}, password {}", it.user, masked(&it.password)));
            format!("by {host}:{port} (tls: {}){}", tls.as_str(), login.unwrap_or_default())
        }
    };
    escape::escape_line(&text).into_owned()
}
