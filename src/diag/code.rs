//! Error codes: stable names used by `forge explain` and the documentation. Each has a page in `pages/`.

use schemars::JsonSchema;
use serde::Serialize;

macro_rules! codes {
    ($($variant:ident = $code:literal, $title:literal;)*) => {
        /// A stable code of a diagnostic.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        pub enum DiagCode {
            $(#[doc = $title] #[serde(rename = $code)] $variant,)*
        }

        impl DiagCode {
            /// Every code, ascending.
            pub const ALL: &'static [DiagCode] = &[$(DiagCode::$variant,)*];

            /// Returns the code as it is printed, `F` and four digits.
            pub fn id(self) -> &'static str {
                match self { $(DiagCode::$variant => $code,)* }
            }

            /// Returns a one-line description.
            pub fn title(self) -> &'static str {
                match self { $(DiagCode::$variant => $title,)* }
            }

            /// Returns the page in Markdown: meaning, a faulty example with its message, and the fix. A code without a
            /// page does not compile.
            pub fn page(self) -> &'static str {
                match self { $(DiagCode::$variant => include_str!(concat!("pages/", $code, ".md")),)* }
            }
        }
    };
}

codes! {
    // F01xx: the text itself
    Unreadable = "F0101", "a file cannot be read";
    Yaml = "F0102", "the text is not valid YAML";
    Duplicate = "F0103", "something is declared twice";
    UnknownKey = "F0104", "unknown key";
    MissingKey = "F0105", "a required key is missing";
    WrongType = "F0106", "a value has the wrong type";
    BadValue = "F0107", "a value is not allowed here";
    ForbiddenCharacter = "F0108", "a value contains a character that cannot reach a host";
    Exclusive = "F0109", "mutually exclusive keys";
    // F02xx: inventory
    BadRange = "F0201", "a host range is malformed";
    BadSelector = "F0202", "a selector is malformed or names an unknown host or group";
    EmptySelector = "F0203", "a selector matches nothing";
    GroupCycle = "F0204", "groups contain each other";
    VarConflict = "F0205", "unrelated groups give one host different values";
    NoHosts = "F0206", "the inventory has no hosts";
    EntryOverlap = "F0207", "a recipe is applied twice to one host";
    BadConnect = "F0208", "invalid connection settings of a host";
    // F03xx: recipes
    UnknownRecipe = "F0301", "unknown recipe";
    UnknownParam = "F0302", "unknown parameter of a recipe";
    MissingParam = "F0303", "missing value of a required parameter";
    BadParam = "F0304", "a parameter has the wrong type or value";
    BadTemplate = "F0305", "a template or expression is malformed";
    UnknownName = "F0306", "a template reads a name that does not exist";
    RuleFailed = "F0307", "a rule is not satisfied";
    NoResource = "F0308", "a step needs exactly one resource";
    BadStep = "F0309", "a step is malformed";
    RecipeCycle = "F0310", "recipes use each other";
    CommandWithoutCheck = "F0311", "a command has no check";
    // F04xx: graph
    UnknownEdge = "F0401", "an edge names a recipe or step that does not exist";
    Cycle = "F0402", "dependency cycle between steps";
    EdgeNotApplied = "F0403", "a required recipe is not applied to the host";
    BadScope = "F0404", "a scope does not fit the step";
    Conflict = "F0405", "two steps declare the same thing differently";
    // F05xx: confinement and trust
    Escape = "F0501", "a path leaves the inventory's tree";
    NeedsTrust = "F0502", "running a program on the controller requires trust";
    SecretUnavailable = "F0503", "a secret cannot be read";
}

impl DiagCode {
    /// Parses a code, in upper or lower case.
    pub fn parse(id: &str) -> Option<DiagCode> {
        DiagCode::ALL.iter().copied().find(|code| code.id().eq_ignore_ascii_case(id))
    }
}
