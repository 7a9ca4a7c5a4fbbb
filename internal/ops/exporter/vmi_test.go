package exporter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/stats"
)

// kubeVirts are KubeVirt's metrics of a VM's statistics, as its virt-handler has them: the name, the labels that
// aren't the VM's, the statistic of libvirt's that it is, and the unit of that.
const kubeVirts = `
gauge   memory_resident_bytes                   -                      balloon.rss              1024
gauge   memory_available_bytes                  -                      balloon.available        1024
gauge   memory_unused_bytes                     -                      balloon.unused           1024
gauge   memory_cached_bytes                     -                      balloon.disk_caches      1024
gauge   memory_swap_in_traffic_bytes            -                      balloon.swap_in          1024
gauge   memory_swap_out_traffic_bytes           -                      balloon.swap_out         1024
counter memory_pgmajfault_total                 -                      balloon.major_fault      1
counter memory_pgminfault_total                 -                      balloon.minor_fault      1
gauge   memory_actual_balloon_bytes             -                      balloon.current          1024
gauge   memory_usable_bytes                     -                      balloon.usable           1024
gauge   memory_domain_bytes                     -                      balloon.current          1024
counter cpu_usage_seconds_total                 -                      cpu.time                 1e-9
counter cpu_user_usage_seconds_total            -                      cpu.user                 1e-9
counter cpu_system_usage_seconds_total          -                      cpu.system               1e-9
counter vcpu_seconds_total                      id="0",state="running" vcpu.0.time              1e-9
counter vcpu_wait_seconds_total                 id="0"                 vcpu.0.wait              1e-9
counter vcpu_delay_seconds_total                id="0"                 vcpu.0.delay             1e-9
counter storage_iops_read_total                 drive="vda"            block.0.rd.reqs          1
counter storage_iops_write_total                drive="vda"            block.0.wr.reqs          1
counter storage_read_traffic_bytes_total        drive="vda"            block.0.rd.bytes         1
counter storage_write_traffic_bytes_total       drive="vda"            block.0.wr.bytes         1
counter storage_read_times_seconds_total        drive="vda"            block.0.rd.times         1e-9
counter storage_write_times_seconds_total       drive="vda"            block.0.wr.times         1e-9
counter storage_flush_requests_total            drive="vda"            block.0.fl.reqs          1
counter storage_flush_times_seconds_total       drive="vda"            block.0.fl.times         1e-9
counter network_receive_bytes_total             interface="vnet0"      net.0.rx.bytes           1
counter network_transmit_bytes_total            interface="vnet0"      net.0.tx.bytes           1
counter network_receive_packets_total           interface="vnet0"      net.0.rx.pkts            1
counter network_transmit_packets_total          interface="vnet0"      net.0.tx.pkts            1
counter network_receive_errors_total            interface="vnet0"      net.0.rx.errs            1
counter network_transmit_errors_total           interface="vnet0"      net.0.tx.errs            1
counter network_receive_packets_dropped_total   interface="vnet0"      net.0.rx.drop            1
counter network_transmit_packets_dropped_total  interface="vnet0"      net.0.tx.drop            1
counter network_traffic_bytes_total             interface="vnet0",type="rx" net.0.rx.bytes      1
counter network_traffic_bytes_total             interface="vnet0",type="tx" net.0.tx.bytes      1
`

// TestAddStats_areKubeVirts proves names, types, labels and units of all metrics of statistics, and that there are no
// others under KubeVirt's name.
func TestAddStats_areKubeVirts(t *testing.T) {
	t.Parallel()
	params := libvirt.StatsParams{
		"vcpu.current": uint64(1), "vcpu.maximum": uint64(1), "vcpu.0.state": int64(1), "block.count": uint64(1),
		"block.0.name": "vda", "net.count": uint64(1), "net.0.name": "vnet0",
	}
	want, kinds := scraped{}, map[string]dto.MetricType{}
	n := uint64(0)
	for line := range strings.Lines(strings.TrimSpace(kubeVirts)) {
		var kind, name, of, param string
		var unit float64
		if _, err := fmt.Sscan(line, &kind, &name, &of, &param, &unit); err != nil {
			t.Fatal(err)
		}
		if _, known := params[param]; !known {
			n += 1e9 // Each has a value of its own.
			params[param] = n
		}
		name = "kubevirt_vmi_" + name
		kinds[name] = dto.MetricType(dto.MetricType_value[strings.ToUpper(kind)])
		pairs := []string{`name="web"`, `namespace="lab"`, `node="kvm1"`}
		if of != "-" {
			pairs = append(pairs, strings.Split(of, ",")...)
		}
		slices.Sort(pairs)
		value, _ := params[param].(uint64)
		if unit == 1e-9 {
			want[name+"{"+strings.Join(pairs, ",")+"}"] = time.Duration(value).Seconds() //nolint:gosec // Some seconds.
		} else {
			want[name+"{"+strings.Join(pairs, ",")+"}"] = float64(value) * unit
		}
	}
	s := stats.New(libvirt.DomainStats{Params: params}, time.Unix(1, 0))
	f := newFamilies(100)
	f.addStats(&s, labels{}.with("node", "kvm1", "namespace", "lab", "name", "web"))
	if diff := cmp.Diff(want, flat(f.all)); diff != "" {
		t.Error(diff)
	}
	for _, name := range slices.Sorted(maps.Keys(f.all)) {
		if f.all[name].GetType() != kinds[name] {
			t.Errorf("%s is a %s", name, f.all[name].GetType())
		}
	}
}
