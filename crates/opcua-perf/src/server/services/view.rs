//! Browse, `BrowseNext`, `TranslateBrowsePathsToNodeIds` and the registration
//! of nodes (Part 4, 5.9).

use opcua::types::{
    BrowseDescription, BrowseDescriptionResultMask, BrowseDirection, BrowseNextRequest,
    BrowseNextResponse, BrowsePath, BrowsePathResult, BrowsePathTarget, BrowseRequest,
    BrowseResponse, BrowseResult, ByteString, ExpandedNodeId, LocalizedText, NodeClass, NodeId,
    QualifiedName, ReferenceDescription, RegisterNodesRequest, RegisterNodesResponse, StatusCode,
    TranslateBrowsePathsToNodeIdsRequest, TranslateBrowsePathsToNodeIdsResponse,
    UnregisterNodesRequest, UnregisterNodesResponse,
};

use super::{Call, Refusal, Refuse, Services, response_header, within_limits};
use crate::server::address_space::{AddressSpace, Key, Node, Reference};

impl Services {
    pub(super) fn browse(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: BrowseRequest = call.request()?;
        let header = &request.request_header;
        self.authorize(header, call)?;
        if !request.view.view_id.is_null() {
            return Err(header.refuse(StatusCode::BadViewIdUnknown).into());
        }
        let nodes = within_limits(request.nodes_to_browse, header)?;
        let most = request.requested_max_references_per_node;
        let results = nodes
            .iter()
            .map(|node| {
                Page::first(node, most).map_or_else(refused, |page| page.browse(&call.shared.space))
            })
            .collect();
        let response = BrowseResponse {
            response_header: response_header(header),
            results: Some(results),
            diagnostic_infos: None,
        };
        call.respond(&response)
    }

    pub(super) fn browse_next(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: BrowseNextRequest = call.request()?;
        let header = &request.request_header;
        self.authorize(header, call)?;
        let points = within_limits(request.continuation_points, header)?;
        let results = points
            .iter()
            .map(|point| match Page::from_bytes(point.as_ref()) {
                None => refused(StatusCode::BadContinuationPointInvalid),
                // A continuation point holds nothing here that could be freed.
                Some(_) if request.release_continuation_points => BrowseResult::default(),
                Some(page) => page.browse(&call.shared.space),
            })
            .collect();
        let response = BrowseNextResponse {
            response_header: response_header(header),
            results: Some(results),
            diagnostic_infos: None,
        };
        call.respond(&response)
    }

    pub(super) fn translate_browse_paths(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: TranslateBrowsePathsToNodeIdsRequest = call.request()?;
        let header = &request.request_header;
        self.authorize(header, call)?;
        let paths = within_limits(request.browse_paths, header)?;
        let results = paths
            .iter()
            .map(|path| match translate(&call.shared.space, path) {
                Ok(target) => BrowsePathResult {
                    status_code: StatusCode::Good,
                    targets: Some(vec![BrowsePathTarget {
                        target_id: ExpandedNodeId::from(target.to_node_id()),
                        remaining_path_index: u32::MAX,
                    }]),
                },
                Err(status_code) => BrowsePathResult {
                    status_code,
                    targets: None,
                },
            })
            .collect();
        let response = TranslateBrowsePathsToNodeIdsResponse {
            response_header: response_header(header),
            results: Some(results),
            diagnostic_infos: None,
        };
        call.respond(&response)
    }

    /// Nodes are found as fast without a registration; the client gets its own
    /// identifiers back, which the standard allows.
    pub(super) fn register_nodes(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: RegisterNodesRequest = call.request()?;
        let header = &request.request_header;
        self.authorize(header, call)?;
        let nodes = within_limits(request.nodes_to_register, header)?;
        let response = RegisterNodesResponse {
            response_header: response_header(header),
            registered_node_ids: Some(nodes),
        };
        call.respond(&response)
    }

    pub(super) fn unregister_nodes(&mut self, call: &mut Call<'_>) -> Result<(), Refusal> {
        let request: UnregisterNodesRequest = call.request()?;
        let header = &request.request_header;
        self.authorize(header, call)?;
        within_limits(request.nodes_to_unregister, header)?;
        let response = UnregisterNodesResponse {
            response_header: response_header(header),
        };
        call.respond(&response)
    }
}

fn refused(status_code: StatusCode) -> BrowseResult {
    BrowseResult {
        status_code,
        ..BrowseResult::default()
    }
}

/// A browse of one node, from some reference on. Its bytes are the
/// continuation point: the table never changes, so the server need not
/// remember anything for the client.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    /// Namespace and number of the node.
    node: (u16, u32),
    direction: Direction,
    /// Namespace and number of the reference type; null stands for all.
    reference_type: (u16, u32),
    subtypes: bool,
    class_mask: u32,
    result_mask: u32,
    /// References to pass over, and the most to give; 0 is all.
    skip: u32,
    most: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Inverse,
    Both,
}

impl Page {
    fn first(wanted: &BrowseDescription, most: u32) -> Result<Self, StatusCode> {
        let pair = |id: &NodeId| id.as_u32().map(|number| (id.namespace, number));
        Ok(Self {
            node: pair(&wanted.node_id).ok_or(StatusCode::BadNodeIdUnknown)?,
            direction: match wanted.browse_direction {
                BrowseDirection::Forward => Direction::Forward,
                BrowseDirection::Inverse => Direction::Inverse,
                BrowseDirection::Both => Direction::Both,
                BrowseDirection::Invalid => return Err(StatusCode::BadBrowseDirectionInvalid),
            },
            reference_type: pair(&wanted.reference_type_id)
                .ok_or(StatusCode::BadReferenceTypeIdInvalid)?,
            subtypes: wanted.include_subtypes,
            class_mask: wanted.node_class_mask,
            result_mask: wanted.result_mask,
            skip: 0,
            most,
        })
    }

    fn browse(mut self, space: &AddressSpace) -> BrowseResult {
        let Some(node) = space.node(Key::new(self.node)) else {
            return refused(StatusCode::BadNodeIdUnknown);
        };
        if self.reference_type != (0, 0) && space.node(Key::new(self.reference_type)).is_none() {
            return refused(StatusCode::BadReferenceTypeIdInvalid);
        }
        let most = if self.most == 0 {
            usize::MAX
        } else {
            crate::wire::message::size(self.most)
        };
        let mut matching = space
            .references(node)
            .filter(|reference| self.matches(space, reference))
            .skip(crate::wire::message::size(self.skip));
        let references: Vec<_> = matching
            .by_ref()
            .take(most)
            .map(|reference| self.describe(&reference))
            .collect();
        let more = matching.next().is_some();
        drop(matching);
        self.skip = self.skip.saturating_add(self.most);
        BrowseResult {
            status_code: StatusCode::Good,
            continuation_point: if more {
                ByteString::from(self.to_bytes())
            } else {
                ByteString::null()
            },
            references: Some(references),
        }
    }

    fn matches(&self, space: &AddressSpace, reference: &Reference<'_>) -> bool {
        let direction = match self.direction {
            Direction::Forward => reference.forward,
            Direction::Inverse => !reference.forward,
            Direction::Both => true,
        };
        let wanted = Key::new(self.reference_type);
        let own = Key::new((0, reference.kind as u32));
        let reference_type = self.reference_type == (0, 0)
            || wanted == own
            || (self.subtypes && space.is_subtype(reference.kind, wanted));
        let class = self.class_mask == 0
            || reference
                .node
                .is_some_and(|node| self.class_mask & (node.class() as u32) != 0);
        direction && reference_type && class
    }

    fn describe(&self, reference: &Reference<'_>) -> ReferenceDescription {
        let wanted = |bit: BrowseDescriptionResultMask| self.result_mask & bit.bits() != 0;
        let node = reference.node;
        ReferenceDescription {
            reference_type_id: if wanted(BrowseDescriptionResultMask::RESULT_MASK_REFERENCE_TYPE) {
                NodeId::from(reference.kind)
            } else {
                NodeId::null()
            },
            is_forward: reference.forward
                && wanted(BrowseDescriptionResultMask::RESULT_MASK_IS_FORWARD),
            node_id: ExpandedNodeId::from(reference.target.to_node_id()),
            browse_name: node
                .filter(|_| wanted(BrowseDescriptionResultMask::RESULT_MASK_BROWSE_NAME))
                .map_or_else(QualifiedName::null, Node::browse_name),
            display_name: node
                .filter(|_| wanted(BrowseDescriptionResultMask::RESULT_MASK_DISPLAY_NAME))
                .map_or_else(LocalizedText::null, |node| {
                    LocalizedText::new("", node.name)
                }),
            node_class: node
                .filter(|_| wanted(BrowseDescriptionResultMask::RESULT_MASK_NODE_CLASS))
                .map_or(NodeClass::Unspecified, Node::class),
            type_definition: node
                .filter(|_| wanted(BrowseDescriptionResultMask::RESULT_MASK_TYPE_DEFINITION))
                .and_then(Node::type_definition)
                .map_or_else(ExpandedNodeId::null, |key| {
                    ExpandedNodeId::from(key.to_node_id())
                }),
        }
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(POINT);
        bytes.extend(self.node.0.to_le_bytes());
        bytes.extend(self.node.1.to_le_bytes());
        bytes.extend(self.reference_type.0.to_le_bytes());
        bytes.extend(self.reference_type.1.to_le_bytes());
        for number in [self.class_mask, self.result_mask, self.skip, self.most] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.push(match self.direction {
            Direction::Forward => 0,
            Direction::Inverse => 1,
            Direction::Both => 2,
        });
        bytes.push(u8::from(self.subtypes));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; POINT] = bytes.try_into().ok()?;
        let pair = |at: usize| Some((u16_at(bytes, at)?, u32_at(bytes, at + 2)?));
        Some(Self {
            node: pair(0)?,
            reference_type: pair(6)?,
            class_mask: u32_at(bytes, 12)?,
            result_mask: u32_at(bytes, 16)?,
            skip: u32_at(bytes, 20)?,
            most: u32_at(bytes, 24)?,
            direction: match bytes[28] {
                0 => Direction::Forward,
                1 => Direction::Inverse,
                2 => Direction::Both,
                _ => return None,
            },
            subtypes: match bytes[29] {
                0 => false,
                1 => true,
                _ => return None,
            },
        })
    }
}

/// The length of a continuation point.
const POINT: usize = 30;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|&b| u16::from_le_bytes(b))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|&b| u32::from_le_bytes(b))
}

/// Follows a path of names to one node.
fn translate(space: &AddressSpace, path: &BrowsePath) -> Result<Key, StatusCode> {
    let start = Key::of(&path.starting_node).ok_or(StatusCode::BadNodeIdUnknown)?;
    let mut node = space.node(start).ok_or(StatusCode::BadNodeIdUnknown)?;
    let elements = path
        .relative_path
        .elements
        .as_deref()
        .filter(|elements| !elements.is_empty())
        .ok_or(StatusCode::BadNothingToDo)?;
    for element in elements {
        if element.target_name.is_null() {
            return Err(StatusCode::BadBrowseNameInvalid);
        }
        let any_type = element.reference_type_id.is_null();
        let wanted = Key::of(&element.reference_type_id).ok_or(StatusCode::BadNoMatch)?;
        node = space
            .references(node)
            .filter(|reference| reference.forward != element.is_inverse)
            .filter(|reference| {
                any_type
                    || wanted == Key::new((0, reference.kind as u32))
                    || (element.include_subtypes && space.is_subtype(reference.kind, wanted))
            })
            .filter_map(|reference| reference.node)
            .find(|node| node.browse_name() == element.target_name)
            .ok_or(StatusCode::BadNoMatch)?;
    }
    Ok(node.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcua::types::{
        DateTime, ObjectId, ReferenceTypeId, RelativePath, RelativePathElement, VariableId,
    };
    use proptest::prelude::*;

    fn space() -> AddressSpace {
        AddressSpace::new("urn:test", DateTime::null())
    }

    fn wanted(id: impl Into<NodeId>) -> BrowseDescription {
        BrowseDescription {
            node_id: id.into(),
            browse_direction: BrowseDirection::Forward,
            reference_type_id: ReferenceTypeId::HierarchicalReferences.into(),
            include_subtypes: true,
            node_class_mask: 0,
            result_mask: BrowseDescriptionResultMask::all().bits(),
        }
    }

    fn names(result: &BrowseResult) -> Vec<String> {
        result
            .references
            .iter()
            .flatten()
            .map(|reference| reference.browse_name.name.to_string())
            .collect()
    }

    #[test]
    fn the_objects_folder_holds_the_server_and_the_variable() {
        let result = Page::first(&wanted(ObjectId::ObjectsFolder), 0)
            .unwrap()
            .browse(&space());
        assert_eq!(names(&result), ["Server", "current-time-nanoseconds"]);
        let references = result.references.unwrap();
        assert_eq!(references[1].node_id.node_id, NodeId::new(1, 42_u32));
        assert_eq!(references[1].browse_name.namespace_index, 1);
        assert!(result.continuation_point.is_null());
    }

    #[test]
    fn pages_hold_what_the_whole_holds() {
        let space = space();
        let whole = Page::first(&wanted(ObjectId::Server), 0)
            .unwrap()
            .browse(&space);
        for size in 1..8 {
            let mut page = Page::first(&wanted(ObjectId::Server), size)
                .unwrap()
                .browse(&space);
            let mut seen = names(&page);
            while !page.continuation_point.is_null() {
                page = Page::from_bytes(page.continuation_point.as_ref())
                    .unwrap()
                    .browse(&space);
                assert!(page.references.as_ref().unwrap().len() <= size as usize);
                seen.extend(names(&page));
            }
            assert_eq!(seen, names(&whole));
        }
    }

    #[test]
    fn filters_are_heeded() {
        let space = space();
        let browse = |wanted: &BrowseDescription| Page::first(wanted, 0).unwrap().browse(&space);
        let mut up = wanted(NodeId::new(1, 42_u32));
        up.browse_direction = BrowseDirection::Inverse;
        assert_eq!(names(&browse(&up)), ["Objects"]);
        let mut objects = wanted(ObjectId::Server);
        objects.node_class_mask = NodeClass::Object as u32;
        assert_eq!(names(&browse(&objects)), ["ServerCapabilities"]);
        let mut exact = wanted(ObjectId::Server);
        exact.reference_type_id = ReferenceTypeId::Aggregates.into();
        exact.include_subtypes = false;
        assert!(names(&browse(&exact)).is_empty());
        let mut bare = wanted(ObjectId::ObjectsFolder);
        bare.result_mask = 0;
        let result = browse(&bare);
        assert!(result.references.unwrap()[0].browse_name.is_null());
        for (id, status) in [
            (NodeId::new(0, 99_999_u32), StatusCode::BadNodeIdUnknown),
            (NodeId::new(1, 43_u32), StatusCode::BadNodeIdUnknown),
        ] {
            assert_eq!(browse(&wanted(id)).status_code, status);
        }
    }

    #[test]
    fn every_reference_leads_back() {
        let space = space();
        let root = Page::first(&wanted(ObjectId::RootFolder), 0)
            .unwrap()
            .browse(&space);
        let mut open: Vec<_> = root.references.unwrap();
        let mut seen = 1;
        while let Some(reference) = open.pop() {
            seen += 1;
            let mut up = wanted(reference.node_id.node_id.clone());
            up.browse_direction = BrowseDirection::Inverse;
            let parents = Page::first(&up, 0).unwrap().browse(&space);
            assert_eq!(names(&parents).len(), 1, "{}", reference.browse_name);
            let down = Page::first(&wanted(reference.node_id.node_id), 0)
                .unwrap()
                .browse(&space);
            open.extend(down.references.unwrap());
        }
        assert!(seen > 80, "{seen} nodes hang together");
    }

    #[test]
    fn paths_are_followed() {
        let element = |name: &str, namespace| RelativePathElement {
            reference_type_id: ReferenceTypeId::HierarchicalReferences.into(),
            is_inverse: false,
            include_subtypes: true,
            target_name: QualifiedName::new(namespace, name),
        };
        let path = |elements: Vec<RelativePathElement>| BrowsePath {
            starting_node: ObjectId::RootFolder.into(),
            relative_path: RelativePath {
                elements: Some(elements),
            },
        };
        let objects = element("Objects", 0);
        let status = [
            objects.clone(),
            element("Server", 0),
            element("ServerStatus", 0),
        ];
        assert_eq!(
            translate(&space(), &path(status.to_vec())).unwrap(),
            Key::new((0, VariableId::Server_ServerStatus as u32))
        );
        let own = [objects.clone(), element("current-time-nanoseconds", 1)];
        assert_eq!(
            translate(&space(), &path(own.to_vec())).unwrap(),
            Key::new((1, 42))
        );
        let wrong = [objects, element("current-time-nanoseconds", 0)];
        assert_eq!(
            translate(&space(), &path(wrong.to_vec())).unwrap_err(),
            StatusCode::BadNoMatch
        );
        assert_eq!(
            translate(&space(), &path(Vec::new())).unwrap_err(),
            StatusCode::BadNothingToDo
        );
    }

    proptest! {
        #[test]
        fn any_continuation_point_is_browsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(page) = Page::from_bytes(&bytes) {
                prop_assert_eq!(&page.to_bytes(), &bytes);
                let _ = page.browse(&space());
            }
        }

        #[test]
        fn any_thirty_bytes_are_browsed_or_refused(bytes: [u8; POINT]) {
            if let Some(page) = Page::from_bytes(&bytes) {
                let _ = page.browse(&space());
            }
        }
    }
}
