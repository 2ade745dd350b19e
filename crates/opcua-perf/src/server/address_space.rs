//! What clients can browse and read: the folders and the Server object that
//! every client looks at first, the types that these use, and the one variable
//! that the server is for.
//!
//! All of it stands in one table that never changes, so a browse needs no
//! state and no lock. Names and numbers are those of Part 5.

use std::collections::HashMap;

use opcua::types::{
    AttributeId, BuildInfo, DataEncoding, DataTypeId, DateTime, ExtensionObject, LocalizedText,
    NodeClass, NodeId, NumericRange, ObjectId, ObjectTypeId, QualifiedName, ReadValueId,
    ReferenceTypeId, ServerState, ServerStatusDataType, StatusCode, UAString, VariableId,
    VariableTypeId, Variant,
};

use crate::clock::DayClock;

/// The namespace of the variable that is measured, and of nothing else.
pub(crate) const OWN_NAMESPACE: u16 = 1;
/// Its number there: `ns=1;i=42`, as in open62541's read performance test.
pub(crate) const NANOSECONDS: u32 = 42;

/// The most nodes that one request may name.
pub(crate) const MAX_NODES: u32 = 10_000;

/// A node's identifier: the namespace and the number. All nodes here have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key(u16, u32);

impl Key {
    pub(crate) fn of(id: &NodeId) -> Option<Self> {
        id.as_u32().map(|number| Self(id.namespace, number))
    }

    pub(crate) fn to_node_id(self) -> NodeId {
        NodeId::new(self.0, self.1)
    }

    /// The key of a namespace and a number.
    pub(crate) const fn new((namespace, number): (u16, u32)) -> Self {
        Self(namespace, number)
    }

    const fn standard(number: u32) -> Self {
        Self(0, number)
    }
}

/// A node and how it hangs together with the others.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) key: Key,
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The reference that leads here, and from where; none for the root.
    parent: Option<(ReferenceTypeId, Key)>,
}

/// What a node is, with what only such nodes have.
#[derive(Debug)]
pub(crate) enum Kind {
    Object(ObjectTypeId),
    Variable {
        type_definition: VariableTypeId,
        data_type: DataTypeId,
        value: Value,
    },
    ObjectType,
    VariableType(DataTypeId),
    ReferenceType {
        inverse_name: &'static str,
    },
    DataType,
}

/// Where a variable's value comes from.
#[derive(Debug)]
pub(crate) enum Value {
    Fixed(Variant),
    Nanoseconds,
    CurrentTime,
    ServerStatus,
}

impl Node {
    pub(crate) const fn class(&self) -> NodeClass {
        match self.kind {
            Kind::Object(_) => NodeClass::Object,
            Kind::Variable { .. } => NodeClass::Variable,
            Kind::ObjectType => NodeClass::ObjectType,
            Kind::VariableType(_) => NodeClass::VariableType,
            Kind::ReferenceType { .. } => NodeClass::ReferenceType,
            Kind::DataType => NodeClass::DataType,
        }
    }

    pub(crate) fn browse_name(&self) -> QualifiedName {
        QualifiedName::new(self.key.0, self.name)
    }

    pub(crate) fn type_definition(&self) -> Option<Key> {
        match self.kind {
            Kind::Object(id) => Some(Key::standard(id as u32)),
            Kind::Variable {
                type_definition, ..
            } => Some(Key::standard(type_definition as u32)),
            _ => None,
        }
    }
}

/// One reference, seen from the node that is browsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reference<'a> {
    pub(crate) kind: ReferenceTypeId,
    pub(crate) forward: bool,
    pub(crate) target: Key,
    /// Absent when the target is a type that is not in the table.
    pub(crate) node: Option<&'a Node>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct AddressSpace {
    nodes: Vec<Node>,
    index: HashMap<Key, usize>,
    build: BuildInfo,
    started: DateTime,
}

impl AddressSpace {
    pub(crate) fn new(application_uri: &str, started: DateTime) -> Self {
        let build = BuildInfo {
            product_uri: PRODUCT_URI.into(),
            manufacturer_name: "opcua-perf".into(),
            product_name: PRODUCT_NAME.into(),
            software_version: env!("CARGO_PKG_VERSION").into(),
            build_number: env!("CARGO_PKG_VERSION").into(),
            build_date: DateTime::null(),
        };
        let mut table = Table { nodes: Vec::new() };
        table.types();
        table.folders();
        table.server(application_uri);
        table.status(&build, started);
        table.build_info(&build);
        table.capabilities();
        table.measured();
        let nodes = table.nodes;
        let index = nodes.iter().enumerate().map(|(i, n)| (n.key, i)).collect();
        Self {
            nodes,
            index,
            build,
            started,
        }
    }

    pub(crate) fn node(&self, key: Key) -> Option<&Node> {
        self.index.get(&key).map(|&i| &self.nodes[i])
    }

    /// All references of a node, always in the same order.
    pub(crate) fn references<'a>(
        &'a self,
        node: &'a Node,
    ) -> impl Iterator<Item = Reference<'a>> + 'a {
        let up = node.parent.map(|(kind, target)| Reference {
            kind,
            forward: false,
            target,
            node: self.node(target),
        });
        let definition = node.type_definition().map(|target| Reference {
            kind: ReferenceTypeId::HasTypeDefinition,
            forward: true,
            target,
            node: self.node(target),
        });
        let down = self.nodes.iter().filter_map(move |child| {
            let (kind, parent) = child.parent?;
            (parent == node.key).then_some(Reference {
                kind,
                forward: true,
                target: child.key,
                node: Some(child),
            })
        });
        down.chain(definition).chain(up)
    }

    /// Whether the reference type `id` is `of` or one of its subtypes.
    pub(crate) fn is_subtype(&self, id: ReferenceTypeId, of: Key) -> bool {
        let mut at = Some(Key::standard(id as u32));
        while let Some(key) = at {
            if key == of {
                return true;
            }
            at = self
                .node(key)
                .and_then(|node| node.parent)
                .filter(|(reference, _)| *reference == ReferenceTypeId::HasSubtype)
                .map(|(_, parent)| parent);
        }
        false
    }

    /// The value of an attribute (Part 4, 5.11.2).
    pub(crate) fn read(&self, read: &ReadValueId, clock: &DayClock) -> Result<Variant, StatusCode> {
        let node = Key::of(&read.node_id)
            .and_then(|key| self.node(key))
            .ok_or(StatusCode::BadNodeIdUnknown)?;
        let attribute = AttributeId::from_u32(read.attribute_id)
            .map_err(|_| StatusCode::BadAttributeIdInvalid)?;
        if attribute != AttributeId::Value {
            if !read.data_encoding.is_null() {
                return Err(StatusCode::BadDataEncodingInvalid);
            }
            return attribute_of(node, attribute)
                .ok_or(StatusCode::BadAttributeIdInvalid)?
                .range_of_owned(&read.index_range);
        }
        let Kind::Variable { value, .. } = &node.kind else {
            return Err(StatusCode::BadAttributeIdInvalid);
        };
        let value = match value {
            Value::Nanoseconds => Variant::UInt64(clock.nanoseconds_of_day()),
            Value::Fixed(value) => value.clone(),
            Value::CurrentTime => Variant::from(clock.date_time()),
            Value::ServerStatus => self.status(clock),
        };
        if !read.data_encoding.is_null() {
            check_encoding(&read.data_encoding, &value)?;
        }
        match read.index_range {
            NumericRange::None => Ok(value),
            ref range => value.range_of_owned(range),
        }
    }

    fn status(&self, clock: &DayClock) -> Variant {
        Variant::from(ExtensionObject::new(ServerStatusDataType {
            start_time: self.started,
            current_time: clock.date_time(),
            state: ServerState::Running,
            build_info: self.build.clone(),
            seconds_till_shutdown: 0,
            shutdown_reason: LocalizedText::null(),
        }))
    }
}

/// Any attribute but the value.
fn attribute_of(node: &Node, attribute: AttributeId) -> Option<Variant> {
    match attribute {
        AttributeId::NodeId => return Some(Variant::from(node.key.to_node_id())),
        AttributeId::NodeClass => return Some(Variant::Int32(node.class() as i32)),
        AttributeId::BrowseName => return Some(Variant::from(node.browse_name())),
        AttributeId::DisplayName => {
            return Some(Variant::from(LocalizedText::new("", node.name)));
        }
        AttributeId::Description => {
            return Some(Variant::from(LocalizedText::new("", description(node))));
        }
        AttributeId::WriteMask | AttributeId::UserWriteMask => {
            return Some(Variant::UInt32(0));
        }
        _ => {}
    }
    match (&node.kind, attribute) {
        (Kind::Object(_), AttributeId::EventNotifier) => Some(Variant::Byte(0)),
        (
            Kind::Variable { data_type, .. } | Kind::VariableType(data_type),
            AttributeId::DataType,
        ) => Some(Variant::from(NodeId::from(*data_type))),
        (Kind::Variable { value, .. }, AttributeId::ValueRank) => {
            Some(Variant::Int32(if is_array(value) { 1 } else { -1 }))
        }
        (Kind::Variable { value, .. }, AttributeId::ArrayDimensions) if is_array(value) => {
            Some(Variant::from(vec![0_u32]))
        }
        (Kind::Variable { .. }, AttributeId::ArrayDimensions) => Some(Variant::Empty),
        (Kind::Variable { .. }, AttributeId::AccessLevel | AttributeId::UserAccessLevel) => {
            Some(Variant::Byte(READABLE))
        }
        (Kind::Variable { .. }, AttributeId::AccessLevelEx) => {
            Some(Variant::UInt32(u32::from(READABLE)))
        }
        (Kind::Variable { .. }, AttributeId::MinimumSamplingInterval) => Some(Variant::Double(0.0)),
        (Kind::Variable { .. }, AttributeId::Historizing) => Some(Variant::Boolean(false)),
        (Kind::VariableType(_), AttributeId::ValueRank) => Some(Variant::Int32(-2)),
        (
            Kind::ObjectType | Kind::VariableType(_) | Kind::ReferenceType { .. } | Kind::DataType,
            AttributeId::IsAbstract,
        ) => Some(Variant::Boolean(ABSTRACT.contains(&node.key.1))),
        (Kind::ReferenceType { inverse_name }, AttributeId::Symmetric) => {
            Some(Variant::Boolean(inverse_name.is_empty()))
        }
        (Kind::ReferenceType { inverse_name }, AttributeId::InverseName) => {
            Some(Variant::from(LocalizedText::new("", inverse_name)))
        }
        _ => None,
    }
}

pub(crate) const PRODUCT_URI: &str = "urn:opcua-perf";
pub(crate) const PRODUCT_NAME: &str = "opcua-perf-server";

/// The access level of a variable that can be read and not written.
const READABLE: u8 = 1;

/// The types here of which there can be no instance.
const ABSTRACT: [u32; 9] = [
    ReferenceTypeId::References as u32,
    ReferenceTypeId::HierarchicalReferences as u32,
    ReferenceTypeId::NonHierarchicalReferences as u32,
    ReferenceTypeId::HasChild as u32,
    ReferenceTypeId::Aggregates as u32,
    VariableTypeId::BaseVariableType as u32,
    DataTypeId::BaseDataType as u32,
    DataTypeId::Number as u32,
    DataTypeId::Structure as u32,
];

fn description(node: &Node) -> &'static str {
    if node.key == Key(OWN_NAMESPACE, NANOSECONDS) {
        "Nanoseconds since midnight (UTC), taken from a monotonic clock at each read"
    } else {
        ""
    }
}

const fn is_array(value: &Value) -> bool {
    matches!(value, Value::Fixed(Variant::Array(_)))
}

/// A structure can be asked for in binary; anything else has no encoding.
fn check_encoding(wanted: &QualifiedName, value: &Variant) -> Result<(), StatusCode> {
    let structure = matches!(value, Variant::ExtensionObject(_));
    match DataEncoding::from_browse_name(wanted.clone()) {
        Ok(DataEncoding::Binary) if structure => Ok(()),
        Ok(DataEncoding::XML | DataEncoding::JSON) if structure => {
            Err(StatusCode::BadDataEncodingUnsupported)
        }
        _ => Err(StatusCode::BadDataEncodingInvalid),
    }
}

/// Builds the table, row by row.
struct Table {
    nodes: Vec<Node>,
}

impl Table {
    fn add(&mut self, key: Key, name: &'static str, kind: Kind, parent: (ReferenceTypeId, Key)) {
        self.nodes.push(Node {
            key,
            name,
            kind,
            parent: Some(parent),
        });
    }

    fn object(
        &mut self,
        id: ObjectId,
        name: &'static str,
        definition: ObjectTypeId,
        parent: (ReferenceTypeId, ObjectId),
    ) {
        let parent = (parent.0, Key::standard(parent.1 as u32));
        self.add(
            Key::standard(id as u32),
            name,
            Kind::Object(definition),
            parent,
        );
    }

    fn property(
        &mut self,
        parent: ObjectId,
        id: VariableId,
        name: &'static str,
        data_type: DataTypeId,
        value: impl Into<Variant>,
    ) {
        let kind = Kind::Variable {
            type_definition: VariableTypeId::PropertyType,
            data_type,
            value: Value::Fixed(value.into()),
        };
        let parent = (ReferenceTypeId::HasProperty, Key::standard(parent as u32));
        self.add(Key::standard(id as u32), name, kind, parent);
    }

    fn component(
        &mut self,
        parent: u32,
        id: VariableId,
        name: &'static str,
        data_type: DataTypeId,
        value: Value,
    ) {
        let type_definition = match id {
            VariableId::Server_ServerStatus => VariableTypeId::ServerStatusType,
            VariableId::Server_ServerStatus_BuildInfo => VariableTypeId::BuildInfoType,
            _ => VariableTypeId::BaseDataVariableType,
        };
        let kind = Kind::Variable {
            type_definition,
            data_type,
            value,
        };
        let parent = (ReferenceTypeId::HasComponent, Key::standard(parent));
        self.add(Key::standard(id as u32), name, kind, parent);
    }

    fn folders(&mut self) {
        use ObjectId as O;
        use ReferenceTypeId::Organizes;
        self.nodes.push(Node {
            key: Key::standard(O::RootFolder as u32),
            name: "Root",
            kind: Kind::Object(ObjectTypeId::FolderType),
            parent: None,
        });
        for (id, name, parent) in [
            (O::ObjectsFolder, "Objects", O::RootFolder),
            (O::TypesFolder, "Types", O::RootFolder),
            (O::ViewsFolder, "Views", O::RootFolder),
            (O::ObjectTypesFolder, "ObjectTypes", O::TypesFolder),
            (O::VariableTypesFolder, "VariableTypes", O::TypesFolder),
            (O::DataTypesFolder, "DataTypes", O::TypesFolder),
            (O::ReferenceTypesFolder, "ReferenceTypes", O::TypesFolder),
            (O::EventTypesFolder, "EventTypes", O::TypesFolder),
        ] {
            self.object(id, name, ObjectTypeId::FolderType, (Organizes, parent));
        }
    }

    fn server(&mut self, application_uri: &str) {
        use DataTypeId as D;
        use ObjectId::Server;
        use VariableId as V;
        let organized = (ReferenceTypeId::Organizes, ObjectId::ObjectsFolder);
        self.object(Server, "Server", ObjectTypeId::ServerType, organized);
        let strings = |texts: &[&str]| {
            Variant::from(texts.iter().map(|&t| UAString::from(t)).collect::<Vec<_>>())
        };
        self.property(
            Server,
            V::Server_ServerArray,
            "ServerArray",
            D::String,
            strings(&[application_uri]),
        );
        self.property(
            Server,
            V::Server_NamespaceArray,
            "NamespaceArray",
            D::String,
            strings(&["http://opcfoundation.org/UA/", application_uri]),
        );
        self.property(
            Server,
            V::Server_ServiceLevel,
            "ServiceLevel",
            D::Byte,
            255_u8,
        );
        self.property(Server, V::Server_Auditing, "Auditing", D::Boolean, false);
    }

    fn status(&mut self, build: &BuildInfo, started: DateTime) {
        use DataTypeId as D;
        use VariableId as V;
        let server = ObjectId::Server as u32;
        let status = V::Server_ServerStatus as u32;
        let fixed = |value: Variant| Value::Fixed(value);
        for (parent, id, name, data_type, value) in [
            (
                server,
                V::Server_ServerStatus,
                "ServerStatus",
                D::ServerStatusDataType,
                Value::ServerStatus,
            ),
            (
                status,
                V::Server_ServerStatus_StartTime,
                "StartTime",
                D::UtcTime,
                fixed(Variant::from(started)),
            ),
            (
                status,
                V::Server_ServerStatus_CurrentTime,
                "CurrentTime",
                D::UtcTime,
                Value::CurrentTime,
            ),
            (
                status,
                V::Server_ServerStatus_State,
                "State",
                D::ServerState,
                fixed(Variant::Int32(ServerState::Running as i32)),
            ),
            (
                status,
                V::Server_ServerStatus_BuildInfo,
                "BuildInfo",
                D::BuildInfo,
                fixed(Variant::from(ExtensionObject::new(build.clone()))),
            ),
            (
                status,
                V::Server_ServerStatus_SecondsTillShutdown,
                "SecondsTillShutdown",
                D::UInt32,
                fixed(Variant::UInt32(0)),
            ),
            (
                status,
                V::Server_ServerStatus_ShutdownReason,
                "ShutdownReason",
                D::LocalizedText,
                fixed(Variant::from(LocalizedText::null())),
            ),
        ] {
            self.component(parent, id, name, data_type, value);
        }
    }

    fn build_info(&mut self, build: &BuildInfo) {
        use DataTypeId as D;
        use VariableId as V;
        let info = V::Server_ServerStatus_BuildInfo as u32;
        let fixed = |value: Variant| Value::Fixed(value);
        let text = |text: &UAString| Value::Fixed(Variant::from(text.clone()));
        for (parent, id, name, data_type, value) in [
            (
                info,
                V::Server_ServerStatus_BuildInfo_ProductUri,
                "ProductUri",
                D::String,
                text(&build.product_uri),
            ),
            (
                info,
                V::Server_ServerStatus_BuildInfo_ManufacturerName,
                "ManufacturerName",
                D::String,
                text(&build.manufacturer_name),
            ),
            (
                info,
                V::Server_ServerStatus_BuildInfo_ProductName,
                "ProductName",
                D::String,
                text(&build.product_name),
            ),
            (
                info,
                V::Server_ServerStatus_BuildInfo_SoftwareVersion,
                "SoftwareVersion",
                D::String,
                text(&build.software_version),
            ),
            (
                info,
                V::Server_ServerStatus_BuildInfo_BuildNumber,
                "BuildNumber",
                D::String,
                text(&build.build_number),
            ),
            (
                info,
                V::Server_ServerStatus_BuildInfo_BuildDate,
                "BuildDate",
                D::UtcTime,
                fixed(Variant::from(build.build_date)),
            ),
        ] {
            self.component(parent, id, name, data_type, value);
        }
    }

    fn capabilities(&mut self) {
        use DataTypeId as D;
        use ObjectId as O;
        use VariableId as V;
        let part = |parent| (ReferenceTypeId::HasComponent, parent);
        let whole = O::Server_ServerCapabilities;
        let limits = O::Server_ServerCapabilities_OperationLimits;
        self.object(
            whole,
            "ServerCapabilities",
            ObjectTypeId::ServerCapabilitiesType,
            part(O::Server),
        );
        self.property(
            whole,
            V::Server_ServerCapabilities_ServerProfileArray,
            "ServerProfileArray",
            D::String,
            vec![UAString::from(
                "http://opcfoundation.org/UA-Profile/Server/NanoEmbeddedDevice2017",
            )],
        );
        self.property(
            whole,
            V::Server_ServerCapabilities_LocaleIdArray,
            "LocaleIdArray",
            D::LocaleId,
            vec![UAString::from("en")],
        );
        self.property(
            whole,
            V::Server_ServerCapabilities_MinSupportedSampleRate,
            "MinSupportedSampleRate",
            D::Duration,
            0.0_f64,
        );
        for (id, name) in [
            (
                V::Server_ServerCapabilities_MaxBrowseContinuationPoints,
                "MaxBrowseContinuationPoints",
            ),
            (
                V::Server_ServerCapabilities_MaxQueryContinuationPoints,
                "MaxQueryContinuationPoints",
            ),
            (
                V::Server_ServerCapabilities_MaxHistoryContinuationPoints,
                "MaxHistoryContinuationPoints",
            ),
        ] {
            // 0: no limit where there is the service, no use where there is none.
            self.property(whole, id, name, D::UInt16, 0_u16);
        }
        self.object(
            limits,
            "OperationLimits",
            ObjectTypeId::OperationLimitsType,
            part(whole),
        );
        for (id, name) in [
            (
                V::Server_ServerCapabilities_OperationLimits_MaxNodesPerRead,
                "MaxNodesPerRead",
            ),
            (
                V::Server_ServerCapabilities_OperationLimits_MaxNodesPerBrowse,
                "MaxNodesPerBrowse",
            ),
            (
                V::Server_ServerCapabilities_OperationLimits_MaxNodesPerRegisterNodes,
                "MaxNodesPerRegisterNodes",
            ),
            (
                V::Server_ServerCapabilities_OperationLimits_MaxNodesPerTranslateBrowsePathsToNodeIds,
                "MaxNodesPerTranslateBrowsePathsToNodeIds",
            ),
        ] {
            self.property(limits, id, name, D::UInt32, MAX_NODES);
        }
    }

    fn measured(&mut self) {
        let kind = Kind::Variable {
            type_definition: VariableTypeId::BaseDataVariableType,
            data_type: DataTypeId::UInt64,
            value: Value::Nanoseconds,
        };
        let parent = (
            ReferenceTypeId::Organizes,
            Key::standard(ObjectId::ObjectsFolder as u32),
        );
        let key = Key(OWN_NAMESPACE, NANOSECONDS);
        self.add(key, "current-time-nanoseconds", kind, parent);
    }

    /// The types that the nodes here have, up to the roots of their trees.
    fn types(&mut self) {
        use DataTypeId as D;
        use ObjectTypeId as O;
        use VariableTypeId as V;
        let subtype = |of: u32| (ReferenceTypeId::HasSubtype, Key::standard(of));
        let root = |folder: ObjectId| (ReferenceTypeId::Organizes, Key::standard(folder as u32));
        for (id, name, parent) in [
            (
                O::BaseObjectType,
                "BaseObjectType",
                root(ObjectId::ObjectTypesFolder),
            ),
            (
                O::FolderType,
                "FolderType",
                subtype(O::BaseObjectType as u32),
            ),
            (
                O::ServerType,
                "ServerType",
                subtype(O::BaseObjectType as u32),
            ),
            (
                O::ServerCapabilitiesType,
                "ServerCapabilitiesType",
                subtype(O::BaseObjectType as u32),
            ),
            (
                O::OperationLimitsType,
                "OperationLimitsType",
                subtype(O::FolderType as u32),
            ),
        ] {
            self.add(Key::standard(id as u32), name, Kind::ObjectType, parent);
        }
        for (id, name, data_type, parent) in [
            (
                V::BaseVariableType,
                "BaseVariableType",
                D::BaseDataType,
                root(ObjectId::VariableTypesFolder),
            ),
            (
                V::BaseDataVariableType,
                "BaseDataVariableType",
                D::BaseDataType,
                subtype(V::BaseVariableType as u32),
            ),
            (
                V::PropertyType,
                "PropertyType",
                D::BaseDataType,
                subtype(V::BaseVariableType as u32),
            ),
            (
                V::ServerStatusType,
                "ServerStatusType",
                D::ServerStatusDataType,
                subtype(V::BaseDataVariableType as u32),
            ),
            (
                V::BuildInfoType,
                "BuildInfoType",
                D::BuildInfo,
                subtype(V::BaseDataVariableType as u32),
            ),
        ] {
            let kind = Kind::VariableType(data_type);
            self.add(Key::standard(id as u32), name, kind, parent);
        }
        self.data_types();
        self.reference_types();
    }

    fn data_types(&mut self) {
        use DataTypeId as D;
        let root = (
            ReferenceTypeId::Organizes,
            Key::standard(ObjectId::DataTypesFolder as u32),
        );
        let base = Key::standard(D::BaseDataType as u32);
        self.add(base, "BaseDataType", Kind::DataType, root);
        for (id, name, of) in [
            (D::Boolean, "Boolean", D::BaseDataType),
            (D::String, "String", D::BaseDataType),
            (D::LocaleId, "LocaleId", D::String),
            (D::DateTime, "DateTime", D::BaseDataType),
            (D::UtcTime, "UtcTime", D::DateTime),
            (D::LocalizedText, "LocalizedText", D::BaseDataType),
            (D::Number, "Number", D::BaseDataType),
            (D::Double, "Double", D::Number),
            (D::Duration, "Duration", D::Double),
            (D::Integer, "Integer", D::Number),
            (D::UInteger, "UInteger", D::Number),
            (D::Byte, "Byte", D::UInteger),
            (D::UInt16, "UInt16", D::UInteger),
            (D::UInt32, "UInt32", D::UInteger),
            (D::UInt64, "UInt64", D::UInteger),
            (D::Enumeration, "Enumeration", D::BaseDataType),
            (D::ServerState, "ServerState", D::Enumeration),
            (D::Structure, "Structure", D::BaseDataType),
            (D::BuildInfo, "BuildInfo", D::Structure),
            (
                D::ServerStatusDataType,
                "ServerStatusDataType",
                D::Structure,
            ),
        ] {
            let parent = (ReferenceTypeId::HasSubtype, Key::standard(of as u32));
            self.add(Key::standard(id as u32), name, Kind::DataType, parent);
        }
    }

    fn reference_types(&mut self) {
        use ReferenceTypeId as R;
        let root = (
            R::Organizes,
            Key::standard(ObjectId::ReferenceTypesFolder as u32),
        );
        let references = Key::standard(R::References as u32);
        let symmetric = Kind::ReferenceType { inverse_name: "" };
        self.add(references, "References", symmetric, root);
        for (id, name, inverse_name, of) in [
            (
                R::HierarchicalReferences,
                "HierarchicalReferences",
                "InverseHierarchicalReferences",
                R::References,
            ),
            (
                R::NonHierarchicalReferences,
                "NonHierarchicalReferences",
                "",
                R::References,
            ),
            (
                R::Organizes,
                "Organizes",
                "OrganizedBy",
                R::HierarchicalReferences,
            ),
            (
                R::HasChild,
                "HasChild",
                "ChildOf",
                R::HierarchicalReferences,
            ),
            (R::Aggregates, "Aggregates", "AggregatedBy", R::HasChild),
            (
                R::HasComponent,
                "HasComponent",
                "ComponentOf",
                R::Aggregates,
            ),
            (R::HasProperty, "HasProperty", "PropertyOf", R::Aggregates),
            (R::HasSubtype, "HasSubtype", "SubtypeOf", R::HasChild),
            (
                R::HasTypeDefinition,
                "HasTypeDefinition",
                "TypeDefinitionOf",
                R::NonHierarchicalReferences,
            ),
        ] {
            let parent = (R::HasSubtype, Key::standard(of as u32));
            let kind = Kind::ReferenceType { inverse_name };
            self.add(Key::standard(id as u32), name, kind, parent);
        }
    }
}
