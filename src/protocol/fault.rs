//! Error codes with their HTTP status, and the error body (`api-protocol.md` 2.2 and 2.4).

use serde_json::{Value, json};

macro_rules! codes {
    ($(#[$outer:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every code, in the order of the numbers.
            pub const ALL: &[$name] = &[$($name::$variant,)*];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $($name::$variant => $number,)* }
            }

            /// The code of a number.
            #[must_use]
            pub const fn from_number(number: u16) -> Option<Self> {
                match number { $($number => Some($name::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    /// `errorcode`, which is the HTTP status too.
    Code {
        /// Not authenticated: signature, key, session.
        Unauthenticated = 401,
        /// Login by another method than POST.
        MethodNotAllowed = 405,
        /// The rate limit of the account.
        RateLimited = 429,
        /// A malformed map parameter, or a request that cannot be decoded.
        Malformed = 430,
        /// A parameter: missing, wrong type, unknown id, failed validation.
        Parameter = 431,
        /// An unknown or forbidden command, an unsupported action.
        Unsupported = 432,
        /// Not accepting work now: the database is away, or the service shuts down.
        Unavailable = 503,
        /// Anything unexpected, and most refusals inside a job.
        Internal = 530,
        /// Permission denied; a failed login.
        Permission = 531,
        /// A resource limit of the account.
        AccountLimit = 532,
        /// Insufficient capacity.
        InsufficientCapacity = 533,
        /// A resource is unavailable.
        ResourceUnavailable = 534,
        /// Allocation failed (limits).
        ResourceAllocation = 535,
        /// The resource is in use.
        ResourceInUse = 536,
        /// Network rules conflict.
        NetworkRuleConflict = 537,
    }
}

codes! {
    /// `cserrorcode`: the class of the exception that CloudStack would raise.
    CsCode {
        /// Generic runtime error.
        CloudRuntime = 4250,
        /// Generic checked error.
        Cloud = 4275,
        /// Account limit.
        AccountLimit = 4280,
        /// Authentication inside a command.
        CloudAuthentication = 4290,
        /// Concurrent operation.
        ConcurrentOperation = 4300,
        /// No free address.
        InsufficientAddressCapacity = 4320,
        /// No capacity.
        InsufficientCapacity = 4325,
        /// No host with room.
        InsufficientServerCapacity = 4335,
        /// No storage with room.
        InsufficientStorageCapacity = 4340,
        /// A parameter's value is not allowed.
        InvalidParameterValue = 4350,
        /// Network rules conflict.
        NetworkRuleConflict = 4360,
        /// Permission denied.
        PermissionDenied = 4365,
        /// Allocation failed.
        ResourceAllocation = 4370,
        /// In use.
        ResourceInUse = 4375,
        /// Unavailable.
        ResourceUnavailable = 4380,
        /// Rate limit reached inside a command.
        RequestLimit = 4545,
        /// The command is unavailable.
        UnavailableCommand = 4555,
        /// An operation took too long.
        OperationTimedOut = 4560,
        /// Raised by the API layer itself: missing parameter, bad id, paging, rate limit.
        ServerApi = 9999,
    }
}

/// An error as it is answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    code: Code,
    cs_code: Option<CsCode>,
    text: String,
}

impl Fault {
    /// An error with both codes.
    pub fn new(code: Code, cs_code: CsCode, text: impl Into<String>) -> Self {
        Self {
            code,
            cs_code: Some(cs_code),
            text: text.into(),
        }
    }

    /// The one answer to whatever is wrong with key or signature; it has no `cserrorcode`.
    #[must_use]
    pub fn unauthenticated() -> Self {
        Self {
            code: Code::Unauthenticated,
            cs_code: None,
            text: "unable to verify user credentials and/or request signature".to_owned(),
        }
    }

    /// A parameter error raised by the API layer itself.
    pub fn parameter(text: impl Into<String>) -> Self {
        Self::new(Code::Parameter, CsCode::ServerApi, text)
    }

    /// A value that fails validation.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(Code::Parameter, CsCode::InvalidParameterValue, text)
    }

    /// A required parameter is missing.
    #[must_use]
    pub fn missing(command: &str, name: &str) -> Self {
        Self::parameter(format!(
            "Unable to execute API command {} due to missing parameter {name}",
            command.to_lowercase()
        ))
    }

    /// A value that does not convert to the parameter's type.
    #[must_use]
    pub fn unreadable(command: &str, name: &str, value: &str) -> Self {
        Self::parameter(format!(
            "Unable to execute API command {} due to invalid value {value} for parameter {name}",
            command.to_lowercase()
        ))
    }

    /// An id that is unknown, not visible to the caller, or no id at all: the three look the same.
    #[must_use]
    pub fn unknown_id(command: &str, name: &str, value: &str) -> Self {
        Self::parameter(format!(
            "Unable to execute API command {} due to invalid value. Invalid parameter {name} value={value} due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.",
            command.to_lowercase()
        ))
    }

    /// A command that does not exist, or that the caller's role may not use.
    #[must_use]
    pub fn not_available(command: &str, account: &str) -> Self {
        Self::new(
            Code::Unsupported,
            CsCode::UnavailableCommand,
            format!("The API [{command}] does not exist or is not available for the account {account}."),
        )
    }

    /// `errorcode` and HTTP status.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// `cserrorcode`.
    #[must_use]
    pub fn cs_code(&self) -> Option<CsCode> {
        self.cs_code
    }

    /// `errortext`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The body below the envelope key.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut body = json!({ "uuidList": [], "errorcode": self.code.number() });
        if let Some(object) = body.as_object_mut() {
            if let Some(cs_code) = self.cs_code {
                object.insert("cserrorcode".to_owned(), json!(cs_code.number()));
            }
            object.insert("errortext".to_owned(), json!(self.text));
        }
        body
    }

    /// The `jobresult` of a job that failed with this error.
    #[must_use]
    pub fn job_result(&self) -> Value {
        json!({ "errorcode": self.code.number(), "errortext": self.text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_has_its_members_in_order() {
        assert_eq!(
            Fault::invalid("no").body().to_string(),
            r#"{"uuidList":[],"errorcode":431,"cserrorcode":4350,"errortext":"no"}"#
        );
        assert_eq!(
            Fault::unauthenticated().body().to_string(),
            r#"{"uuidList":[],"errorcode":401,"errortext":"unable to verify user credentials and/or request signature"}"#
        );
    }

    #[test]
    fn a_job_shows_code_and_text_only() {
        assert_eq!(
            Fault::new(Code::Internal, CsCode::CloudRuntime, "why")
                .job_result()
                .to_string(),
            r#"{"errorcode":530,"errortext":"why"}"#
        );
    }

    #[test]
    fn texts_that_clients_key_on() {
        assert_eq!(
            Fault::missing("scaleKubernetesCluster", "id").text(),
            "Unable to execute API command scalekubernetescluster due to missing parameter id"
        );
        assert_eq!(
            Fault::unreadable("scaleKubernetesCluster", "size", "two").text(),
            "Unable to execute API command scalekubernetescluster due to invalid value two for parameter size"
        );
        let unknown = Fault::unknown_id("listKubernetesClusters", "id", "x");
        assert!(unknown.text().contains(
            "Invalid parameter id value=x due to incorrect long value format, or entity does not exist"
        ));
        assert_eq!(unknown.cs_code().map(CsCode::number), Some(9999));
        assert_eq!(
            Fault::not_available("listZones", "ops").text(),
            "The API [listZones] does not exist or is not available for the account ops."
        );
    }

    #[test]
    fn numbers_lead_back_to_their_code() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), Some(*code));
        }
        for code in CsCode::ALL {
            assert_eq!(CsCode::from_number(code.number()), Some(*code));
        }
        assert_eq!(Code::from_number(200), None);
    }
}
