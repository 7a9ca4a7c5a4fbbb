package domainstats

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// memory is memory, and how fast it is swapped and faulted.
type memory struct {
	stats.Memory
	Rates stats.Rates
}

var memoryFields = fields[memory]{
	whole("current_bytes", "Memory that the balloon leaves the guest.", func(m memory) *uint64 { return m.Current }),
	whole("maximum_bytes", "Memory that the balloon can leave the guest.", func(m memory) *uint64 { return m.Maximum }),
	whole("resident_bytes", "Memory of the host that QEMU occupies.",
		func(m memory) *uint64 { return m.Resident }),
	whole("available_bytes", "Memory that the guest's kernel manages.", func(m memory) *uint64 { return m.Available }),
	whole("unused_bytes", "Memory that the guest doesn't use.", func(m memory) *uint64 { return m.Unused }),
	whole("usable_bytes", "Memory that the guest could give its programs without swapping.",
		func(m memory) *uint64 { return m.Usable }),
	whole("disk_caches_bytes", "Memory that the guest fills with cached files.",
		func(m memory) *uint64 { return m.DiskCaches }),
	whole("swap_in_bytes", "Read from swap since the guest started.", func(m memory) *uint64 { return m.SwapIn }),
	whole("swap_out_bytes", "Written to swap since the guest started.", func(m memory) *uint64 { return m.SwapOut }),
	whole("major_faults", "Page faults that had to wait for a disk.", func(m memory) *uint64 { return m.MajorFaults }),
	whole("minor_faults", "Other page faults.", func(m memory) *uint64 { return m.MinorFaults }),
	whole("huge_page_allocations", "Huge pages that the guest allocated.",
		func(m memory) *uint64 { return m.HugePageAllocations }),
	whole("huge_page_failures", "Huge pages that the guest could not allocate.",
		func(m memory) *uint64 { return m.HugePageFailures }),
	text("last_update", "When the guest last reported its own numbers (RFC 3339).", func(m memory) string {
		if m.LastUpdate == nil {
			return ""
		}
		return m.LastUpdate.Format(time.RFC3339)
	}),
	decimal("swap_in_bytes_per_second", "`swap_in_bytes` over `interval`.",
		func(m memory) *float64 { return m.Rates.SwapIn }),
	decimal("swap_out_bytes_per_second", "`swap_out_bytes` over `interval`.",
		func(m memory) *float64 { return m.Rates.SwapOut }),
	decimal("major_faults_per_second", "`major_faults` over `interval`.",
		func(m memory) *float64 { return m.Rates.MajorFaults }),
	decimal("minor_faults_per_second", "`minor_faults` over `interval`.",
		func(m memory) *float64 { return m.Rates.MinorFaults }),
}

func fromMemory(s *stats.Sample, r stats.Rates) attr.Value {
	if s.Memory == nil {
		return types.ObjectNull(memoryFields.objectType().AttrTypes)
	}
	return memoryFields.object(memory{*s.Memory, r})
}
