package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/value"
)

// model is the provider block. It is read only when all of it is known.
type model struct {
	Hosts             map[string]hostModel `tfsdk:"hosts"`
	URI               types.String         `tfsdk:"uri"`
	SSH               *sshModel            `tfsdk:"ssh"`
	DefaultDomainType types.String         `tfsdk:"default_domain_type"`
	OnUnreachable     types.String         `tfsdk:"on_unreachable"`
	MigrationLimits   *limitsModel         `tfsdk:"migration_limits"`
	MigrationOptions  types.Object         `tfsdk:"migration_options"`

	DefaultEvictionStrategy types.String `tfsdk:"default_eviction_strategy"`
}

// hostModel is one host of the provider block.
type hostModel struct {
	URI         types.String   `tfsdk:"uri"`
	Labels      types.Map      `tfsdk:"labels"`
	MemoryLimit value.Quantity `tfsdk:"memory_limit"`

	MemoryReserve           value.Quantity `tfsdk:"memory_reserve"`
	OvercommitGuestOverhead types.Bool     `tfsdk:"overcommit_guest_overhead"`

	StorageOverprovisioningFactor types.Float64 `tfsdk:"storage_overprovisioning_factor"`

	Schedulable types.Bool `tfsdk:"schedulable"`
	Devices     types.Map  `tfsdk:"devices"`

	MigrationAddress types.String `tfsdk:"migration_address"`
	PeerURI          types.String `tfsdk:"peer_uri"`
	Fenced           types.Bool   `tfsdk:"fenced"`
	SSH              *sshModel    `tfsdk:"ssh"`
}
