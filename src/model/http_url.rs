//! Addresses of artifacts: `http` and `https` URLs, their origins, and redirect targets.

use http::Uri;
use std::fmt;

/// An absolute `http` or `https` URL without credentials and fragment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpUrl {
    https: bool,
    /// Host and port as written.
    authority: String,
    /// Path and query; begins with `/`.
    path: String,
}

impl HttpUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// The text is not a valid address of an artifact: the reason, as a lowercase fragment without the URL itself.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let text = text.split('#').next().unwrap_or_default();
        let uri: Uri = text.parse().map_err(|_| "is not a URL")?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err("is neither http nor https"),
            None => return Err("is not an absolute URL"),
        };
        let authority = uri.authority().filter(|a| !a.host().is_empty()).ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("holds credentials, which would be shown");
        }
        let path = uri.path_and_query().map_or("/", |p| p.as_str());
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { https, authority: authority.as_str().to_ascii_lowercase(), path })
    }

    /// Reports whether the scheme is `https`; otherwise it is `http`.
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Reports whether it is this machine, whose traffic is not visible on the network.
    pub fn is_loopback(&self) -> bool {
        let (_, host, _) = self.origin();
        is_loopback_host(host.trim_start_matches('[').trim_end_matches(']'))
    }

    /// Returns scheme, host and port. The port is always explicit.
    fn origin(&self) -> (bool, &str, &str) {
        // Colons inside brackets belong to an IPv6 address.
        let split = self.authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
        let (host, port) = split.unwrap_or((&self.authority, ""));
        let port = if port.is_empty() { if self.https { "443" } else { "80" } } else { port };
        (self.https, host, port)
    }

    /// Reports whether credentials for this address may be sent to `other`.
    pub fn has_same_origin(&self, other: &Self) -> bool {
        self.origin() == other.origin()
    }

    /// Returns it without its query: the query of a signed URL gives anyone who reads it access to the file.
    pub fn without_query(&self) -> Self {
        Self { path: self.path.split('?').next().unwrap_or_default().to_owned(), ..self.clone() }
    }

    /// Returns the target of a redirect from this address.
    ///
    /// # Errors
    /// The target must not be followed: the reason, as a lowercase fragment.
    pub fn resolve_redirect(&self, location: &str) -> Result<Self, String> {
        let next = self
            .resolve_reference(location)
            .map_err(|why| format!("redirect to `{}`, which {why}", strip_location_secrets(location)))?;
        match self.https && !next.https {
            true => Err(format!("redirect from https to `{}`, which is not encrypted", next.without_query())),
            false => Ok(next),
        }
    }

    /// Resolves a reference by RFC 3986 5.2, without removing dot segments: servers do that themselves.
    fn resolve_reference(&self, location: &str) -> Result<Self, &'static str> {
        let location = location.trim();
        let scheme = if self.https { "https" } else { "http" };
        if let Some(rest) = location.strip_prefix("//") {
            return Self::parse(&format!("{scheme}://{rest}"));
        }
        let path = self.path.split('?').next().unwrap_or_default();
        let folder = &path[..path.rfind('/').map_or(0, |at| at + 1)];
        match location.split(['/', '?', '#']).next() {
            Some(first) if first.contains(':') => Self::parse(location),
            _ if location.starts_with('/') => Self::parse(&format!("{scheme}://{}{location}", self.authority)),
            _ if location.starts_with('?') => Self::parse(&format!("{scheme}://{}{path}{location}", self.authority)),
            _ => Self::parse(&format!("{scheme}://{}{folder}{location}", self.authority)),
        }
    }
}

/// Reports whether a host name or IP address is this machine.
pub fn is_loopback_host(host: &str) -> bool {
    host == "localhost" || host.parse::<core::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.https { "https" } else { "http" }, self.authority, self.path)
    }
}

/// Returns a location for messages: without query and credentials.
fn strip_location_secrets(location: &str) -> String {
    let plain = location.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = plain.split_once("//") else { return plain.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}//{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    #[test]
    fn only_absolute_http_urls_without_credentials_are_accepted() {
        assert_eq!(address("https://Mirror.example/a/b.run?x=1#f").to_string(), "https://mirror.example/a/b.run?x=1");
        assert_eq!(address("http://h").to_string(), "http://h/");
        assert_eq!(HttpUrl::parse("ftp://h/x"), Err("is neither http nor https"));
        assert_eq!(HttpUrl::parse("mirror/x.run"), Err("is not a URL"));
        assert_eq!(HttpUrl::parse("/x.run"), Err("is not an absolute URL"));
        assert_eq!(HttpUrl::parse("https://u:p@h/x"), Err("holds credentials, which would be shown"));
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let own = address("https://h/x");
        for same in ["https://h/other", "https://H:443/"] {
            assert!(own.has_same_origin(&address(same)), "{same}");
        }
        for other in ["http://h/x", "https://h:8443/x", "https://h.example/x", "https://[::1]/x"] {
            assert!(!own.has_same_origin(&address(other)), "{other}");
        }
        assert!(address("http://[::1]/x").has_same_origin(&address("http://[::1]:80/")));
    }

    #[test]
    fn redirects_resolve_and_keep_https() {
        let from = address("https://h/a/b.run?v=1");
        let to = |location: &str| from.resolve_redirect(location).map(|next| next.to_string());
        assert_eq!(to("https://cdn.example/z").unwrap(), "https://cdn.example/z");
        assert_eq!(to("//cdn.example/z").unwrap(), "https://cdn.example/z");
        assert_eq!(to("/z?w").unwrap(), "https://h/z?w");
        assert_eq!(to("c.run").unwrap(), "https://h/a/c.run");
        assert_eq!(to("?v=2").unwrap(), "https://h/a/b.run?v=2");
        assert_eq!(
            to("http://h/a/b.run").unwrap_err(),
            "redirect from https to `http://h/a/b.run`, which is not encrypted"
        );
        assert_eq!(to("file:///etc/shadow").unwrap_err(), "redirect to `file:///etc/shadow`, which is not a URL");
        assert!(address("http://h/x").resolve_redirect("https://h/x").is_ok());
    }

    #[test]
    fn redirect_errors_omit_signatures_and_credentials() {
        let from = address("https://h/a/b.run");
        for (location, why) in [
            (
                "http://cdn.example/z?sig=hunter2",
                "redirect from https to `http://cdn.example/z`, which is not encrypted",
            ),
            (
                "https://me:hunter2@cdn.example/z?sig=hunter2",
                "redirect to `https://cdn.example/z`, which holds credentials, which would be shown",
            ),
            (
                "//me:hunter2@cdn.example?sig=hunter2",
                "redirect to `//cdn.example`, which holds credentials, which would be shown",
            ),
            ("ftp://cdn.example/@z?sig=hunter2", "redirect to `ftp://cdn.example/@z`, which is neither http nor https"),
        ] {
            assert_eq!(from.resolve_redirect(location).unwrap_err(), why);
        }
        assert_eq!(address("https://h/a?x=1&y").without_query().to_string(), "https://h/a");
        assert_eq!(address("https://h?x").without_query().to_string(), "https://h/");
    }
}
