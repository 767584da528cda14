//! One machine's manifest: what runs there, and its part of the tables, written in the one form that is hashed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::rc::Rc;

use identity::principal::{HostPort, Name, NodeName, Principal};
use identity::time::Seconds;

use super::places::{Home, Places};
use super::reach::{Nth, Reach, json, list};
use crate::fleet::{Fleet, MachineSpec};
use crate::stored::{Listener, ProgramSvid, Runs, SCHEMA_OF_TUNNELS};

/// What all manifests of one fleet are made from.
#[derive(Debug)]
pub(super) struct Press<'a> {
    fleet: &'a Fleet,
    schema: u32,
    pub places: Places<'a>,
    reach: Reach<'a>,
    /// Nodes that carry for others, and where.
    relays: BTreeMap<&'a NodeName, &'a HostPort>,
    /// What each user and service may call; many have the same roles.
    allowed: HashMap<&'a BTreeSet<Name>, Rc<[Nth]>>,
}

/// What some services are for one machine.
#[derive(Default)]
struct Target {
    node: bool,
    callers: Vec<String>,
}

impl<'a> Press<'a> {
    pub(super) fn new(fleet: &'a Fleet, schema: u32) -> Self {
        let places = Places::of(fleet);
        let reach = Reach::of(fleet, &places);
        let relays = fleet.nodes.iter().filter(|(_, node)| node.relay);
        let relays = relays.filter_map(|(name, node)| Some((name, node.address.as_ref()?))).collect();
        let users = fleet.users.values().map(|user| &user.roles);
        let roles = users.chain(fleet.services.values().map(|service| &service.roles));
        let mut allowed: HashMap<&BTreeSet<Name>, Rc<[Nth]>> = HashMap::new();
        for roles in roles {
            allowed.entry(roles).or_insert_with(|| reach.allowed_by(roles).into());
        }
        Self { fleet, schema, places, reach, relays, allowed }
    }

    pub(super) fn class(&self, class: &Name, spec: &MachineSpec) -> Vec<u8> {
        self.write(spec, &self.places.of_class(class), self.reach.allowed_to_node(&spec.roles), None)
    }

    pub(super) fn node(&self, node: &NodeName, spec: &MachineSpec) -> Vec<u8> {
        let class = self.places.class_of(node).and_then(|class| self.fleet.classes.get(class));
        let shared = class.into_iter().flat_map(|class| &class.like.roles);
        let own = self.reach.allowed_to_node(spec.roles.iter().chain(shared));
        self.write(spec, &self.places.of_node(node), own, Some(node))
    }

    fn write(&self, spec: &MachineSpec, home: &Home<'a>, own: Vec<Nth>, node: Option<&NodeName>) -> Vec<u8> {
        let targets = self.targets(home, own);
        let far = targets.keys().filter_map(|nth| self.reach.services.get(*nth));
        let needs_relay = (spec.address.is_none() && !home.services.is_empty())
            || far.into_iter().any(|service| service.needs_relay_from(node));
        let mut text =
            format!(r#"{{"schema":{},"runs":{},"access":{{"callers":{{"#, self.schema, self.runs(spec, home));
        let mut comma = "";
        for service in home.services.iter().filter_map(|name| self.reach.service(name)) {
            let _ = write!(text, r#"{comma}"{}":{}"#, service.name, service.callers);
            comma = ",";
        }
        text.push_str(r#"},"targets":{"#);
        comma = "";
        for (nth, target) in &targets {
            if let Some(service) = self.reach.services.get(*nth) {
                let callers = list(target.callers.iter().map(String::as_str));
                let (name, places, node) = (service.name, &service.dials, target.node);
                let _ = write!(text, r#"{comma}"{name}":{{"places":{places},"node":{node},"callers":{callers}"#);
                if self.schema >= SCHEMA_OF_TUNNELS {
                    let _ = write!(text, r#","port":{}"#, service.port);
                }
                text.push('}');
                comma = ",";
            }
        }
        let relays = self.relays.iter().filter(|(name, _)| needs_relay && Some(**name) != node);
        let relays: BTreeMap<_, _> = relays.collect();
        let _ = write!(text, r#"}},"relays":{}"#, json(&relays));
        if let Some(stale) = self.reach.stale.as_ref().filter(|_| !home.services.is_empty()) {
            let _ = write!(text, r#","stale":{stale}"#);
        }
        text.push_str("}}");
        text.into_bytes()
    }

    /// By place in the sorted list of services, which is the order in which a map of names is written.
    fn targets(&self, home: &Home<'a>, own: Vec<Nth>) -> BTreeMap<Nth, Target> {
        let mut targets: BTreeMap<Nth, Target> = BTreeMap::new();
        for nth in own {
            targets.entry(nth).or_default().node = true;
        }
        let org = &self.fleet.org.name;
        let users =
            home.users.iter().filter_map(|name| Some((Principal::user(org, name), &self.fleet.users.get(name)?.roles)));
        let services = home.services.iter();
        let services =
            services.filter_map(|name| Some((Principal::service(org, name), &self.fleet.services.get(name)?.roles)));
        for (principal, roles) in users.chain(services) {
            let principal = json(&principal);
            for nth in self.allowed.get(roles).into_iter().flat_map(|all| all.iter()) {
                targets.entry(*nth).or_default().callers.push(principal.clone());
            }
        }
        targets
    }

    fn runs(&self, spec: &MachineSpec, home: &Home<'a>) -> String {
        let services = home.services.iter().filter_map(|name| {
            let service = self.fleet.services.get(name)?;
            Some(((*name).clone(), Listener { addr: service.addr.clone(), tells_caller: service.tells_caller }))
        });
        let policy = &spec.policy;
        json(&Runs {
            gateways: policy.gateways.clone(),
            svid_life: life(self.fleet.org.svid_life, policy.svid_life),
            sync: policy.sync,
            apply: policy.apply,
            labels: spec.labels.clone(),
            address: spec.address.clone(),
            relay: spec.relay,
            services: services.collect(),
            users: home.users.iter().map(|name| (*name).clone()).collect(),
            checks: policy.checks.clone(),
            files: policy.files.clone(),
            tunnel: policy.tunnel.clone(),
            svids: self.svids(home),
        })
    }

    fn svids(&self, home: &Home<'a>) -> BTreeMap<Principal, ProgramSvid> {
        let (org, fleet) = (&self.fleet.org.name, self.fleet);
        let services = home.services.iter().filter_map(|name| {
            let svid = fleet.services.get(name)?.svid.clone()?;
            Some((Principal::service(org, name), svid))
        });
        let users = home.users.iter().filter_map(|name| {
            let svid = fleet.users.get(name)?.svid.clone()?;
            Some((Principal::user(org, name), svid))
        });
        services.chain(users).collect()
    }
}

/// What the org allows at most also holds for a node that asks for more.
fn life(longest: Option<Seconds>, wished: Option<Seconds>) -> Option<Seconds> {
    [longest, wished].into_iter().flatten().min()
}
