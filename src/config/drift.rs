//! `drift:` as it is meant: what drift passes over and until when, how long it remembers, what it may run.

use super::filter::Pattern;
use super::notify::Recipient;
use crate::diag::Span;
use jiff::civil::Date;

/// Days that history is kept where nothing is declared.
pub const KEEP_DAYS: u32 = 90;

/// `drift:`.
#[derive(Clone, Debug)]
pub struct DriftPolicy {
    pub ignore: Vec<Ignore>,
    /// Days that history is kept on the controller.
    pub keep_days: u32,
    /// Whether a recipe's own checks run also where they cannot be kept from writing.
    pub unconfined: bool,
    /// Whether hosts themselves keep since when their findings are there.
    pub first_seen_on_host: bool,
    /// Who is told when what is found changes.
    pub notify: Vec<Recipient>,
    /// Whether hosts that are alike are compared.
    pub outliers: Option<OutlierMode>,
}

/// What is done about hosts that are unlike the others of their kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutlierMode {
    /// They are shown.
    Show,
    /// They are shown, and count as found.
    Count,
}

impl OutlierMode {
    pub const ALL: [Self; 2] = [Self::Show, Self::Count];

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
        found.ok_or_else(|| "it is `show` or `count`".to_owned())
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

/// Something that drift passes over, for a reason and for a time.
#[derive(Clone, Debug)]
pub struct Ignore {
    pub what: Ignored,
    /// As written: `/etc/motd`, `base/banner`.
    pub text: String,
    pub why: String,
    /// The last day on which it holds.
    pub until: Date,
    pub span: Span,
    pub(super) pattern: Pattern,
}

/// Whether a path or a step is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    Path,
    Step,
}

impl Ignore {
    /// Returns whether it is about something: a step of a recipe, or one of the paths that the step is about.
    pub fn covers<'p>(&self, recipe: &str, step: &str, paths: impl IntoIterator<Item = &'p str>) -> bool {
        match self.what {
            Ignored::Path => paths.into_iter().any(|path| self.pattern.is_match(path)),
            Ignored::Step => self.pattern.admits(recipe, step),
        }
    }

    /// Returns whether its time is over.
    pub fn is_expired(&self, today: Date) -> bool {
        today > self.until
    }
}
