//! Error codes: stable names that `forge explain` and the docs speak of. Each has a page in `pages/`.

use schemars::JsonSchema;
use serde::Serialize;

macro_rules! codes {
    ($($variant:ident = $code:literal, $title:literal;)*) => {
        /// A stable code of a diagnostic.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        pub enum Code {
            $(#[doc = $title] #[serde(rename = $code)] $variant,)*
        }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// Returns the code as it is printed, `F` and four digits.
            pub fn id(self) -> &'static str {
                match self { $(Code::$variant => $code,)* }
            }

            /// Returns one line of meaning.
            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }

            /// Returns the page in Markdown: what it means, a bad example with its message, how to mend it.
            /// A code without a page does not compile.
            pub fn page(self) -> &'static str {
                match self { $(Code::$variant => include_str!(concat!("pages/", $code, ".md")),)* }
            }
        }
    };
}

codes! {
    // F01xx: the text itself
    Unreadable = "F0101", "a file cannot be read";
    Yaml = "F0102", "the text is not valid YAML";
    Duplicate = "F0103", "something is named twice";
    UnknownKey = "F0104", "a key is not known here";
    MissingKey = "F0105", "a required key is missing";
    WrongType = "F0106", "a value has the wrong type";
    BadValue = "F0107", "a value is not allowed here";
    ForbiddenCharacter = "F0108", "a value holds a character that cannot reach a host";
    Exclusive = "F0109", "keys exclude each other";
    // F02xx: inventory
    BadRange = "F0201", "a host range is malformed";
    BadSelector = "F0202", "a selector is malformed or names something unknown";
    EmptySelector = "F0203", "a selector matches nothing";
    GroupCycle = "F0204", "groups contain each other";
    VarConflict = "F0205", "unrelated groups give one host different values";
    NoHosts = "F0206", "the inventory has no hosts";
    EntryOverlap = "F0207", "a recipe is applied twice to one host";
    BadConnect = "F0208", "the connection of a host is not usable";
    // F03xx: recipes
    UnknownRecipe = "F0301", "a recipe is not known";
    UnknownParam = "F0302", "a parameter is not known to the recipe";
    MissingParam = "F0303", "a parameter without default is not given";
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
    Cycle = "F0402", "steps wait for each other";
    EdgeNotApplied = "F0403", "a needed recipe is not applied to the host";
    BadScope = "F0404", "a scope does not fit the step";
    Conflict = "F0405", "two steps declare the same thing differently";
    // F05xx: confinement and trust
    Escape = "F0501", "a path leaves the inventory's tree";
    NeedsTrust = "F0502", "something would run a program on the controller without trust";
    SecretUnavailable = "F0503", "a secret cannot be read";
}

impl Code {
    /// Returns the code of that name, in capitals or not.
    pub fn parse(id: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.id().eq_ignore_ascii_case(id))
    }
}
