//! How a command is described: name, roles, parameters, reply. One description feeds parsing, the permission
//! check, listApis, the OpenAPI document and the documentation.
//!
//! What this must not know: which commands there are.

mod date;

use serde_json::{Map, Value, json};

pub use date::{DayEnd, read_date};

use super::envelope::root_of;
use super::fault::Fault;
use super::params::Params;

/// What an account may do; the number is `type` in replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// An ordinary account.
    User,
    /// Administers a domain and what is below it.
    DomainAdmin,
    /// Administers everything.
    Admin,
}

impl Role {
    /// Everybody.
    pub const ALL: &[Role] = &[Role::Admin, Role::DomainAdmin, Role::User];

    /// The name as stored and shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::User => "User",
            Role::DomainAdmin => "DomainAdmin",
            Role::Admin => "Admin",
        }
    }

    /// The role of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Role> {
        Self::ALL.iter().copied().find(|role| role.name() == name)
    }
}

/// The type of a parameter, by the words of listApis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParamType {
    /// Only the word true is true.
    Boolean,
    /// A whole number; blank means not given.
    Integer,
    /// A whole number; blank is an error.
    Long,
    /// Text of limited length.
    String,
    /// Comma-separated.
    List,
    /// An id.
    Uuid,
    /// `yyyy-MM-dd`, with or without a time.
    Date,
    /// `name[i].field=value`.
    Map,
}

impl ParamType {
    /// The word of listApis.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            ParamType::Boolean => "boolean",
            ParamType::Integer => "integer",
            ParamType::Long => "long",
            ParamType::String => "string",
            ParamType::List => "list",
            ParamType::Uuid => "uuid",
            ParamType::Date => "date",
            ParamType::Map => "map",
        }
    }
}

/// Whether a parameter must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Need {
    /// It must.
    Required,
    /// It may.
    Optional,
}

/// One parameter of a command.
#[derive(Debug, Clone, Copy)]
pub struct Param {
    /// Its name, in lower case.
    pub name: &'static str,
    /// Its type.
    pub kind: ParamType,
    /// Whether it must be given.
    pub need: Need,
    /// Greatest length of a string.
    pub length: usize,
    /// The release that brought it.
    pub since: Option<&'static str>,
    /// What it means.
    pub description: &'static str,
}

impl Param {
    /// A parameter that may be given.
    #[must_use]
    pub const fn optional(name: &'static str, kind: ParamType, description: &'static str) -> Param {
        Param {
            name,
            kind,
            need: Need::Optional,
            length: 255,
            since: None,
            description,
        }
    }

    /// A parameter that must be given.
    #[must_use]
    pub const fn required(name: &'static str, kind: ParamType, description: &'static str) -> Param {
        let mut param = Param::optional(name, kind, description);
        param.need = Need::Required;
        param
    }

    /// The same with another greatest length.
    #[must_use]
    pub const fn length(mut self, length: usize) -> Param {
        self.length = length;
        self
    }

    /// The same with the release that brought it.
    #[must_use]
    pub const fn since(mut self, since: &'static str) -> Param {
        self.since = Some(since);
        self
    }
}

/// The type of a member of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// JSON string.
    String,
    /// JSON number.
    Integer,
    /// JSON number.
    Long,
    /// JSON boolean.
    Boolean,
    /// A date in a JSON string.
    Date,
    /// A JSON array: of strings, or of the nested objects.
    List,
    /// A JSON object of free keys with string values.
    Map,
    /// A nested JSON object.
    Object,
}

impl FieldType {
    /// The word of listApis.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            FieldType::String => "string",
            FieldType::Integer => "integer",
            FieldType::Long => "long",
            FieldType::Boolean => "boolean",
            FieldType::Date => "date",
            FieldType::List => "list",
            FieldType::Map => "map",
            FieldType::Object => "object",
        }
    }
}

/// One member of a reply's object.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: FieldType,
    /// What it means.
    pub description: &'static str,
    /// Members of the nested objects.
    pub nested: &'static [Field],
}

impl Field {
    /// A member.
    #[must_use]
    pub const fn new(name: &'static str, kind: FieldType, description: &'static str) -> Field {
        Field {
            name,
            kind,
            description,
            nested: &[],
        }
    }

    /// A member that holds objects.
    #[must_use]
    pub const fn nested(
        name: &'static str,
        kind: FieldType,
        description: &'static str,
        nested: &'static [Field],
    ) -> Field {
        Field {
            name,
            kind,
            description,
            nested,
        }
    }
}

/// How a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// One object under this key.
    Object(&'static str),
    /// A count and a list under this key.
    List(&'static str),
    /// The members directly in the envelope.
    Fields,
    /// A job, whose result has an object under this key.
    Job(&'static str),
    /// A job, whose result is a success flag.
    JobSuccess,
}

impl Reply {
    /// Whether the command is asynchronous.
    #[must_use]
    pub const fn is_async(self) -> bool {
        matches!(self, Reply::Job(_) | Reply::JobSuccess)
    }
}

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// Its name, in the exact case.
    pub name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// The release that brought it.
    pub since: Option<&'static str>,
    /// Who may use it.
    pub roles: &'static [Role],
    /// How it answers.
    pub reply: Reply,
    /// Its parameters.
    pub params: &'static [Param],
    /// The members of its object.
    pub response: &'static [Field],
}

impl Command {
    /// The envelope key of its replies.
    #[must_use]
    pub fn root(&self) -> String {
        root_of(self.name)
    }

    /// Whether a role may use it.
    #[must_use]
    pub fn allows(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Checks all parameters against their declared types, and that none is missing. Unknown ones are ignored.
    ///
    /// # Errors
    /// The first [`Fault`], in the order of the declaration.
    pub fn check(&self, params: &Params) -> Result<(), Fault> {
        params.check()?;
        for param in self.params {
            self.check_one(param, params)?;
        }
        Ok(())
    }

    fn check_one(&self, param: &Param, params: &Params) -> Result<(), Fault> {
        if param.kind == ParamType::Map {
            let records = params.map(param.name)?;
            if records.is_empty() && param.need == Need::Required {
                return Err(Fault::missing(self.name, param.name));
            }
            return Ok(());
        }
        let Some(value) = params.get(param.name) else {
            return match param.need {
                Need::Required => Err(Fault::missing(self.name, param.name)),
                Need::Optional => Ok(()),
            };
        };
        if value.trim().is_empty() && param.need == Need::Required {
            return Err(Fault::missing(self.name, param.name));
        }
        let unreadable = || Fault::unreadable(self.name, param.name, value);
        match param.kind {
            ParamType::Integer if !value.trim().is_empty() => {
                value.trim().parse::<i32>().map(|_| ()).map_err(|_| unreadable())
            }
            ParamType::Long => value.trim().parse::<i64>().map(|_| ()).map_err(|_| unreadable()),
            ParamType::String if value.chars().count() > param.length => Err(Fault::parameter(format!(
                "Unable to execute API command {} due to invalid value. Value greater than max allowed length {} for param: {}",
                self.name.to_lowercase(),
                param.length,
                param.name
            ))),
            // A blank id is none, as a blank text is.
            ParamType::Uuid if !value.trim().is_empty() => match uuid::Uuid::try_parse(value.trim()) {
                Ok(_) => Ok(()),
                Err(_) if value.trim() == "-1" && param.name == "projectid" => Ok(()),
                Err(_) => Err(Fault::unknown_id(self.name, param.name, value)),
            },
            ParamType::Date if !value.trim().is_empty() => {
                read_date(value, DayEnd::Start).map(|_| ()).ok_or_else(unreadable)
            }
            _ => Ok(()),
        }
    }

    /// The item of listApis.
    #[must_use]
    pub fn describe(&self) -> Value {
        let mut item = Map::new();
        item.insert("name".to_owned(), json!(self.name));
        item.insert("description".to_owned(), json!(self.description));
        if let Some(since) = self.since {
            item.insert("since".to_owned(), json!(since));
        }
        item.insert("isasync".to_owned(), json!(self.reply.is_async()));
        let params: Vec<Value> = self.params.iter().map(describe_param).collect();
        item.insert("params".to_owned(), Value::Array(params));
        let response: Vec<Value> = self.response.iter().map(describe_field).collect();
        item.insert("response".to_owned(), Value::Array(response));
        Value::Object(item)
    }
}

fn describe_param(param: &Param) -> Value {
    let mut item = Map::new();
    item.insert("name".to_owned(), json!(param.name));
    item.insert("description".to_owned(), json!(param.description));
    item.insert("type".to_owned(), json!(param.kind.word()));
    item.insert("length".to_owned(), json!(param.length));
    item.insert("required".to_owned(), json!(param.need == Need::Required));
    if let Some(since) = param.since {
        item.insert("since".to_owned(), json!(since));
    }
    Value::Object(item)
}

fn describe_field(field: &Field) -> Value {
    let mut item = Map::new();
    item.insert("name".to_owned(), json!(field.name));
    item.insert("description".to_owned(), json!(field.description));
    item.insert("type".to_owned(), json!(field.kind.word()));
    if !field.nested.is_empty() {
        let nested: Vec<Value> = field.nested.iter().map(describe_field).collect();
        item.insert("response".to_owned(), Value::Array(nested));
    }
    Value::Object(item)
}

#[cfg(test)]
mod tests;
