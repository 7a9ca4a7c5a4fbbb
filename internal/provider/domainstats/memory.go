package domainstats

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// memory is the guest's memory, with the rates of its swapping and page faults.
type memory struct {
	stats.Memory
	Rates stats.Rates
}

var memoryFields = fields[memory]{
	wholeField("current_bytes", "Memory that the balloon leaves the guest.", func(m memory) *uint64 { return m.Current }),
	wholeField("maximum_bytes", "Memory that the balloon can leave the guest.",
		func(m memory) *uint64 { return m.Maximum }),
	wholeField("resident_bytes", "Memory of the host that QEMU occupies.",
		func(m memory) *uint64 { return m.Resident }),
	wholeField("available_bytes", "Memory that the guest's kernel manages.",
		func(m memory) *uint64 { return m.Available }),
	wholeField("unused_bytes", "Memory that the guest doesn't use.", func(m memory) *uint64 { return m.Unused }),
	wholeField("usable_bytes", "Memory that the guest could give its programs without swapping.",
		func(m memory) *uint64 { return m.Usable }),
	wholeField("disk_caches_bytes", "Memory that the guest fills with cached files.",
		func(m memory) *uint64 { return m.DiskCaches }),
	wholeField("swap_in_bytes", "Read from swap since the guest started.", func(m memory) *uint64 { return m.SwapIn }),
	wholeField("swap_out_bytes", "Written to swap since the guest started.", func(m memory) *uint64 { return m.SwapOut }),
	wholeField("major_faults", "Page faults that had to wait for a disk.",
		func(m memory) *uint64 { return m.MajorFaults }),
	wholeField("minor_faults", "Other page faults.", func(m memory) *uint64 { return m.MinorFaults }),
	wholeField("huge_page_allocations", "Huge pages that the guest allocated.",
		func(m memory) *uint64 { return m.HugePageAllocations }),
	wholeField("huge_page_failures", "Huge pages that the guest could not allocate.",
		func(m memory) *uint64 { return m.HugePageFailures }),
	textField("last_update", "When the guest last reported its own numbers (RFC 3339).", func(m memory) string {
		if m.LastUpdate == nil {
			return ""
		}
		return m.LastUpdate.Format(time.RFC3339)
	}),
	decimalField("swap_in_bytes_per_second", "`swap_in_bytes` over `interval`.",
		func(m memory) *float64 { return m.Rates.SwapIn }),
	decimalField("swap_out_bytes_per_second", "`swap_out_bytes` over `interval`.",
		func(m memory) *float64 { return m.Rates.SwapOut }),
	decimalField("major_faults_per_second", "`major_faults` over `interval`.",
		func(m memory) *float64 { return m.Rates.MajorFaults }),
	decimalField("minor_faults_per_second", "`minor_faults` over `interval`.",
		func(m memory) *float64 { return m.Rates.MinorFaults }),
}

func fromMemory(s *stats.Sample, r stats.Rates) attr.Value {
	if s.Memory == nil {
		return types.ObjectNull(memoryFields.objectType().AttrTypes)
	}
	return memoryFields.object(memory{*s.Memory, r})
}
