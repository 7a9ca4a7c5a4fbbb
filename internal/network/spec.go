package network

// Spec is what a configuration declares for a network. A nil block is left as it is on the host; any other block is
// complete.
type Spec struct {
	Forward        *Forward              `json:"forward,omitzero"`
	Bridge         *string               `json:"bridge,omitzero"`
	MTU            *int                  `json:"mtu,omitzero"`
	Domain         *Domain               `json:"domain,omitzero"`
	DNS            *DNS                  `json:"dns,omitzero"`
	IPs            []IP                  `json:"ips,omitzero"`
	Routes         []Route               `json:"routes,omitzero"`
	PortGroups     map[string]*PortGroup `json:"port_groups,omitzero"`
	VLAN           *VLAN                 `json:"vlan,omitzero"`
	VirtualPort    *VirtualPort          `json:"virtual_port,omitzero"`
	Bandwidth      *Bandwidth            `json:"bandwidth,omitzero"`
	DnsmasqOptions []string              `json:"dnsmasq_options,omitzero"`
}

// The forward modes: libvirt's, and ModeIsolated for a network without a mode.
const (
	ModeNAT         = "nat"
	ModeRoute       = "route"
	ModeOpen        = "open"
	ModeIsolated    = "isolated"
	ModeBridge      = "bridge"
	ModePrivate     = "private"
	ModeVEPA        = "vepa"
	ModePassthrough = "passthrough"
	ModeHostdev     = "hostdev"
)

// Modes are all forward modes.
var Modes = []string{
	ModeNAT, ModeRoute, ModeOpen, ModeIsolated, ModeBridge, ModePrivate, ModeVEPA, ModePassthrough, ModeHostdev,
}

// BridgeModes are the forward modes with which libvirt creates the network's bridge.
var BridgeModes = []string{ModeNAT, ModeRoute, ModeOpen, ModeIsolated}

// Forward says how the network is connected to the host's network.
type Forward struct {
	Mode             string   `json:"mode,omitzero"`              // one of Modes
	Devices          []string `json:"devices,omitzero"`           // the host's network devices
	PhysicalFunction string   `json:"physical_function,omitzero"` // the device whose virtual functions are assigned
	PCIAddresses     []string `json:"pci_addresses,omitzero"`     // the PCI devices that are assigned: "0000:03:10.1"
	Managed          bool     `json:"managed,omitzero"`           // libvirt detaches PCI devices from the host's drivers
	NAT              *NAT     `json:"nat,omitzero"`
}

// NAT says what addresses and ports are translated to.
type NAT struct {
	Start     string `json:"start,omitzero"` // the first and last address
	End       string `json:"end,omitzero"`
	PortStart int    `json:"port_start,omitzero"` // the first and last port; 0: 1024 to 65535
	PortEnd   int    `json:"port_end,omitzero"`
	IPv6      bool   `json:"ipv6,omitzero"`
}

// Domain is the network's DNS domain.
type Domain struct {
	Name      string `json:"name,omitzero"`
	LocalOnly bool   `json:"local_only,omitzero"` // names of the domain are never forwarded
}

// DNS is the configuration of the network's DNS server.
type DNS struct {
	Enabled           *bool       `json:"enabled,omitzero"`             // nil: true
	ForwardPlainNames *bool       `json:"forward_plain_names,omitzero"` // nil: true
	Forwarders        []Forwarder `json:"forwarders,omitzero"`
	Hosts             []DNSHost   `json:"hosts,omitzero"`
	SRV               []SRV       `json:"srv,omitzero"`
	TXT               []TXT       `json:"txt,omitzero"`
}

// Forwarder is a DNS server to forward to: all names, or those of one domain. Without an address the names of the
// domain are never forwarded.
type Forwarder struct {
	Address string `json:"address,omitzero"`
	Domain  string `json:"domain,omitzero"`
}

// DNSHost is an address and its names.
type DNSHost struct {
	IP    string   `json:"ip,omitzero"`
	Names []string `json:"names,omitzero"`
}

// SRV is an SRV record.
type SRV struct {
	Service  string `json:"service,omitzero"`
	Protocol string `json:"protocol,omitzero"`
	Domain   string `json:"domain,omitzero"`
	Target   string `json:"target,omitzero"`
	Port     int    `json:"port,omitzero"`
	Priority int    `json:"priority,omitzero"`
	Weight   int    `json:"weight,omitzero"`
}

// TXT is a TXT record.
type TXT struct {
	Name  string `json:"name,omitzero"`
	Value string `json:"value,omitzero"`
}

// IP is an address of the host on the network, and its DHCP configuration.
type IP struct {
	Address string `json:"address,omitzero"` // with its prefix length: "192.168.10.1/24"
	DHCP    *DHCP  `json:"dhcp,omitzero"`
}

// DHCP is what the DHCP server assigns. If Hosts is nil, the reservations on the host are left as they are: they may be
// managed individually.
type DHCP struct {
	Ranges []Range    `json:"ranges,omitzero"`
	Hosts  []DHCPHost `json:"hosts,omitzero"`
}

// Range is a range of addresses, both ends included.
type Range struct {
	Start string `json:"start,omitzero"`
	End   string `json:"end,omitzero"`
}

// DHCPHost is a reservation: for a MAC address with IPv4, for a DUID with IPv6.
type DHCPHost struct {
	MAC  string `json:"mac,omitzero"`
	DUID string `json:"duid,omitzero"`
	IP   string `json:"ip,omitzero"`
	Name string `json:"name,omitzero"`
}

// Route is a static route of the host into the network.
type Route struct {
	Destination string `json:"destination,omitzero"` // "10.0.0.0/8"
	Gateway     string `json:"gateway,omitzero"`
	Metric      int    `json:"metric,omitzero"`
}

// PortGroup is a set of properties that interfaces select by its name.
type PortGroup struct {
	Default     bool         `json:"default,omitzero"`
	VLAN        *VLAN        `json:"vlan,omitzero"`
	VirtualPort *VirtualPort `json:"virtual_port,omitzero"`
	Bandwidth   *Bandwidth   `json:"bandwidth,omitzero"`
}

// VLAN tags the frames that interfaces send.
type VLAN struct {
	Tags       []int  `json:"tags,omitzero"`
	Trunk      bool   `json:"trunk,omitzero"`       // always true with several tags
	NativeTag  int    `json:"native_tag,omitzero"`  // the tag of untagged frames; 0: none
	NativeMode string `json:"native_mode,omitzero"` // "tagged" or "untagged"
}

// VirtualPort is how interfaces are attached to a switch: "openvswitch", "802.1Qbg", ...
type VirtualPort struct {
	Type          string `json:"type,omitzero"`
	InterfaceID   string `json:"interface_id,omitzero"`
	ProfileID     string `json:"profile_id,omitzero"`
	ManagerID     *int   `json:"manager_id,omitzero"`
	TypeID        *int   `json:"type_id,omitzero"`
	TypeIDVersion *int   `json:"type_id_version,omitzero"`
	InstanceID    string `json:"instance_id,omitzero"`
}

// Bandwidth limits traffic.
type Bandwidth struct {
	Inbound  *Rate `json:"inbound,omitzero"`
	Outbound *Rate `json:"outbound,omitzero"`
}

// Rate is in kB (1000 bytes) per second, Burst in KiB.
type Rate struct {
	Average int `json:"average,omitzero"`
	Peak    int `json:"peak,omitzero"`
	Burst   int `json:"burst,omitzero"`
}
