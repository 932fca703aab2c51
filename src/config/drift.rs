//! The `drift:` settings: which findings drift ignores and until when, how long it keeps history, and what it may run.

use super::name_pattern::NamePattern;
use super::notify::NotifyRecipient;
use crate::diag::Span;
use crate::model::SecretPlaceholder;
use jiff::civil::Date;

/// Default number of days to keep history.
pub const KEEP_DAYS: u32 = 90;

/// `drift:`.
#[derive(Clone, Debug)]
pub struct DriftPolicy {
    /// Findings to leave out; empty to report everything.
    pub ignore: Vec<DriftIgnoreRule>,
    /// Days to keep history on the controller.
    pub keep_days: u32,
    /// Whether a recipe's own checks run even if the host cannot prevent them from writing.
    pub unconfined: bool,
    /// Whether each host stores when its findings were first seen.
    pub first_seen_on_host: bool,
    /// Recipients of a notification when the findings change.
    pub notify: Vec<NotifyRecipient>,
    /// Whether similar hosts are compared with each other, and how outliers are reported.
    pub outliers: Option<OutlierMode>,
}

/// How outliers among similar hosts are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlierMode {
    /// Outliers are shown.
    Show,
    /// Outliers are shown and count as findings.
    Count,
}

impl OutlierMode {
    /// Every mode, the weaker one first.
    pub const ALL: [Self; 2] = [Self::Show, Self::Count];

    /// Returns the value of `outliers` that selects the mode.
    pub fn name(self) -> &'static str {
        match self {
            Self::Show => "show",
            Self::Count => "count",
        }
    }
}

impl std::str::FromStr for OutlierMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| "must be `show` or `count`".to_owned())
    }
}

impl DriftPolicy {
    /// Records why a secret of a recipient could not be read.
    pub(super) fn fail_secret(&mut self, placeholder: &SecretPlaceholder, why: &str) {
        let secrets = self.notify.iter_mut().flat_map(|recipient| recipient.service.list_secrets_mut());
        for secret in secrets.filter(|secret| secret.value.as_ref() == Ok(&placeholder.0)) {
            secret.value = Err(format!("the secret `{}` cannot be read: {why}", secret.label));
        }
    }
}

impl Default for DriftPolicy {
    fn default() -> Self {
        Self {
            ignore: Vec::new(),
            keep_days: KEEP_DAYS,
            unconfined: false,
            outliers: None,
            notify: Vec::new(),
            first_seen_on_host: false,
        }
    }
}

/// A path or step that drift ignores, with a reason and an expiry date.
#[derive(Clone, Debug)]
pub struct DriftIgnoreRule {
    /// Whether `text` is a pattern of paths or of steps.
    pub what: DriftIgnoreKind,
    /// The pattern as declared: `/etc/motd`, `base/banner`.
    pub text: String,
    /// The reason that the inventory gives, shown with ignored findings.
    pub why: String,
    /// The last day on which the rule is effective.
    pub until: Date,
    /// The place of the rule in the inventory.
    pub span: Span,
    pub(super) pattern: NamePattern,
}

/// Whether the rule ignores paths or steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftIgnoreKind {
    /// Paths on hosts: `/etc/motd`, `/var/lib/app/*`.
    Path,
    /// Steps: a recipe, or `recipe/step`.
    Step,
}

impl DriftIgnoreRule {
    /// Returns whether the rule covers this step of the recipe, or one of the step's paths.
    pub fn covers_step<'p>(&self, recipe: &str, step: &str, paths: impl IntoIterator<Item = &'p str>) -> bool {
        match self.what {
            DriftIgnoreKind::Path => paths.into_iter().any(|path| self.pattern.is_match(path)),
            DriftIgnoreKind::Step => self.pattern.admits_step(recipe, step),
        }
    }

    /// Returns whether the rule has expired.
    pub fn is_expired(&self, today: Date) -> bool {
        today > self.until
    }
}
