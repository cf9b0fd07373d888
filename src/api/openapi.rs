//! The OpenAPI document, made from the list of commands.
//!
//! A path may not hold a query, so each command is described under its alias `/client/api/{command}`; the wire
//! form that clients use, `/client/api?command=…`, is described once.

use serde_json::{Map, Value, json};

use super::commands::ALL;
use crate::protocol::Command;
use crate::protocol::command::{Field, FieldType, Need, Param, ParamType, Reply, Role};

/// The codes that every command may answer.
const CODES: &[(&str, &str)] = &[
    ("401", "Not authenticated: key, signature or expiry"),
    ("429", "The account has made all the calls that it may make now"),
    ("430", "A malformed parameter"),
    (
        "431",
        "A parameter: missing, wrong type, unknown id, or a value that is not allowed",
    ),
    ("432", "No such command, or not for this account"),
    (
        "503",
        "Not possible now: the database is away, or the service is stopping",
    ),
    ("530", "An error inside the command"),
    ("531", "Permission denied"),
];

/// The whole document.
#[must_use]
pub fn document() -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    schemas.insert("Error".to_owned(), error_schema());
    paths.insert("/client/api".to_owned(), wire_form());
    for entry in ALL {
        let path = format!("/client/api/{}", entry.command.name);
        paths.insert(path, operation(&entry.command, &mut schemas));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "cksd",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "The CloudStack API for Kubernetes clusters",
            "description": "Every request is signed: the parameters apikey and signature, and with signatureversion=3 also expires. The signature is the base64 of the HMAC-SHA1, with the secret key, over all parameters but itself, sorted by name, values percent-encoded, joined by & and lower-cased. The command of the path takes part in it as the parameter command.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "apikey": [], "signature": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "apikey": { "type": "apiKey", "in": "query", "name": "apikey" },
                "signature": { "type": "apiKey", "in": "query", "name": "signature" },
            },
            "schemas": schemas,
        },
    })
}

/// The document as it is checked in.
///
/// # Errors
/// When it cannot be written as YAML.
pub fn yaml() -> Result<String, serde_yaml_ng::Error> {
    let body = serde_yaml_ng::to_string(&document())?;
    Ok(format!(
        "# Generated from the list of commands in src/api/commands by `UPDATE=1 cargo test --lib api::`; do not edit.\n{body}"
    ))
}

fn error_schema() -> Value {
    json!({
        "type": "object",
        "required": ["errorcode", "errortext"],
        "properties": {
            "uuidList": { "type": "array", "items": { "type": "object" } },
            "errorcode": { "type": "integer", "description": "the same as the HTTP status" },
            "cserrorcode": { "type": "integer", "description": "the class of the error; absent on 401" },
            "errortext": { "type": "string" },
        },
    })
}

fn wire_form() -> Value {
    let names: Vec<&str> = ALL.iter().map(|entry| entry.command.name).collect();
    json!({
        "get": {
            "operationId": "callCommand",
            "summary": "The form that CloudStack clients use",
            "description": "The command and all its parameters in the query, or in the form body of a POST. The reply is that of the command's own path.",
            "parameters": [
                query("command", &json!({ "type": "string", "enum": names }), "the command", Need::Required),
                query("response", &json!({ "type": "string", "enum": ["json", "xml"], "default": "xml" }), "the format of the reply", Need::Optional),
            ],
            "responses": {
                "200": {
                    "description": "The reply of the command",
                    "content": { "application/json": { "schema": { "type": "object" } } },
                },
            },
        },
    })
}

fn query(name: &str, schema: &Value, description: &str, need: Need) -> Value {
    json!({
        "name": name,
        "in": "query",
        "required": need == Need::Required,
        "description": description,
        "schema": schema,
    })
}

fn operation(command: &Command, schemas: &mut Map<String, Value>) -> Value {
    let name = upper_first(command.name);
    let reply = format!("{name}Reply");
    let failure = format!("{name}Failure");
    let object = schemas_of(command, schemas);
    schemas.insert(reply.clone(), reply_schema(command, &object));
    schemas.insert(
        failure.clone(),
        json!({
            "type": "object",
            "properties": {
                command.root(): { "$ref": "#/components/schemas/Error" },
                "errorresponse": { "$ref": "#/components/schemas/Error" },
            },
        }),
    );
    let content = |schema: &str| json!({ "application/json": { "schema": { "$ref": format!("#/components/schemas/{schema}") } } });
    let mut responses = Map::new();
    responses.insert(
        "200".to_owned(),
        json!({ "description": answer_of(command.reply), "content": content(&reply) }),
    );
    for (code, description) in CODES {
        responses.insert(
            (*code).to_owned(),
            json!({ "description": description, "content": content(&failure) }),
        );
    }
    let parameters: Vec<Value> = command.params.iter().flat_map(parameters).collect();
    let roles: Vec<&str> = command.roles.iter().copied().map(Role::name).collect();
    let method = if command.reply.is_async() || command.name.starts_with("update") {
        "post"
    } else {
        "get"
    };
    json!({
        method: {
            "operationId": command.name,
            "summary": command.description,
            "description": format!("For: {}.", roles.join(", ")),
            "parameters": parameters,
            "responses": responses,
        },
    })
}

fn answer_of(reply: Reply) -> &'static str {
    match reply {
        Reply::Object(_) => "The object",
        Reply::List(_) => "A page of the list; without a match an empty object",
        Reply::Fields => "The members",
        Reply::Job(_) | Reply::JobSuccess => "The job that does it; ask for it with queryAsyncJobResult",
    }
}

/// A map parameter is written as one parameter for each field of each record; the first record stands for all.
fn parameters(param: &Param) -> Vec<Value> {
    if param.kind == ParamType::Map {
        let text = json!({ "type": "string" });
        return ["node", "offering"]
            .iter()
            .map(|field| {
                let name = format!("{}[0].{field}", param.name);
                query(&name, &text, param.description, Need::Optional)
            })
            .collect();
    }
    let schema = match param.kind {
        ParamType::Boolean => json!({ "type": "boolean" }),
        ParamType::Integer | ParamType::Long => json!({ "type": "integer", "format": "int64" }),
        ParamType::String => json!({ "type": "string", "maxLength": param.length }),
        // Comma-separated in one value.
        ParamType::List | ParamType::Uuid | ParamType::Date | ParamType::Map => json!({ "type": "string" }),
    };
    vec![query(param.name, &schema, param.description, param.need)]
}

/// The schema of the command's object, and those nested in it; its name.
fn schemas_of(command: &Command, schemas: &mut Map<String, Value>) -> String {
    let name = match command.reply {
        Reply::Object(object) | Reply::List(object) | Reply::Job(object) => object_name(object),
        Reply::Fields => format!("{}Members", upper_first(command.name)),
        Reply::JobSuccess => "Success".to_owned(),
    };
    object_schema(&name, command.response, schemas);
    name
}

fn object_schema(name: &str, fields: &[Field], schemas: &mut Map<String, Value>) {
    if schemas.contains_key(name) {
        return;
    }
    let mut properties = Map::new();
    for field in fields {
        let nested = format!("{name}{}", upper_first(field.name));
        if !field.nested.is_empty() {
            object_schema(&nested, field.nested, schemas);
        }
        let reference = json!({ "$ref": format!("#/components/schemas/{nested}") });
        let mut schema = match field.kind {
            FieldType::String | FieldType::Date => json!({ "type": "string" }),
            FieldType::Integer | FieldType::Long => json!({ "type": "integer", "format": "int64" }),
            FieldType::Boolean => json!({ "type": "boolean" }),
            FieldType::List if field.nested.is_empty() => json!({ "type": "array", "items": {} }),
            FieldType::List => json!({ "type": "array", "items": reference }),
            FieldType::Map => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
            FieldType::Object if field.nested.is_empty() => json!({ "type": "object" }),
            FieldType::Object => reference,
        };
        if let Some(members) = schema.as_object_mut() {
            members.insert("description".to_owned(), json!(field.description));
        }
        properties.insert(field.name.to_owned(), schema);
    }
    schemas.insert(
        name.to_owned(),
        json!({ "type": "object", "properties": properties }),
    );
}

fn reply_schema(command: &Command, object: &str) -> Value {
    let reference = json!({ "$ref": format!("#/components/schemas/{object}") });
    let inner = match command.reply {
        Reply::Object(key) => json!({ "type": "object", "properties": { key: reference } }),
        Reply::List(key) => json!({
            "type": "object",
            "properties": {
                "count": { "type": "integer", "format": "int64", "description": "matches on all pages" },
                key: { "type": "array", "items": reference },
            },
        }),
        Reply::Fields => reference,
        Reply::Job(_) | Reply::JobSuccess => json!({
            "type": "object",
            "required": ["jobid"],
            "properties": { "jobid": { "type": "string" } },
        }),
    };
    let root = command.root();
    json!({ "type": "object", "required": [root], "properties": { root: inner } })
}

fn object_name(object: &str) -> String {
    match object {
        "kubernetescluster" => "KubernetesCluster".to_owned(),
        "kubernetessupportedversion" => "KubernetesSupportedVersion".to_owned(),
        "clusterconfig" => "ClusterConfig".to_owned(),
        "asyncjobs" => "AsyncJob".to_owned(),
        other => upper_first(other),
    }
}

fn upper_first(text: &str) -> String {
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}", letters.as_str())
}
