package migration

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

func TestOptions_defaultsAreKubeVirts(t *testing.T) {
	t.Parallel()
	got := Options{}.WithDefaults()
	want := Options{
		Transport: "auto", CompletionTimeoutPerGiB: new(150 * time.Second), ProgressTimeout: new(150 * time.Second),
		AllowAutoConverge: new(false), AllowPostCopy: new(false), AllowWorkloadDisruption: new(false),
		AllowNetworkChange: new(false), RecoveryTimeout: new(5 * time.Minute), Bandwidth: new(uint64(0)),
		ParallelConnections: new(0), CopyStorage: "none", KeepSourceDisks: new(true), OnIrrecoverable: "keep",
		Compression: "none", PeerToPeer: new(false), StallDetector: new(false),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults differ (-want +got):\n%s", diff)
	}
}

func TestOptions_innerLevelWins(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	tests := map[string]struct{ inner, outer, want Options }{
		"each by itself": {
			Options{Bandwidth: new(uint64(1))},
			Options{Bandwidth: new(uint64(2)), AllowAutoConverge: &yes},
			Options{Bandwidth: new(uint64(1)), AllowAutoConverge: &yes},
		},
		"disruption follows post-copy": {
			Options{AllowPostCopy: &yes}, Options{}, Options{AllowPostCopy: &yes, AllowWorkloadDisruption: &yes},
		},
		"also where the outer level says otherwise": {
			Options{AllowPostCopy: &yes},
			Options{AllowWorkloadDisruption: &no},
			Options{AllowPostCopy: &yes, AllowWorkloadDisruption: &yes},
		},
		"unless it is set too": {
			Options{AllowPostCopy: &yes, AllowWorkloadDisruption: &no},
			Options{},
			Options{AllowPostCopy: &yes, AllowWorkloadDisruption: &no},
		},
		"zero is a value": {
			Options{ProgressTimeout: new(time.Duration(0))},
			Options{ProgressTimeout: new(time.Second)},
			Options{ProgressTimeout: new(time.Duration(0))},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.inner.Over(tt.outer)); diff != "" {
				t.Errorf("options differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOptions_everyOptionIsInherited: an option that Over leaves out has no effect in a policy or the provider block.
func TestOptions_everyOptionIsInherited(t *testing.T) {
	t.Parallel()
	outer := Options{}
	fields := reflect.ValueOf(&outer).Elem()
	for i := range fields.NumField() {
		switch field := fields.Field(i); field.Kind() {
		case reflect.String:
			field.SetString("set")
		case reflect.Pointer:
			field.Set(reflect.New(field.Type().Elem()))
		case reflect.Slice:
			field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		default:
			t.Fatalf("%s can't say that it isn't set", fields.Type().Field(i).Name)
		}
	}
	outer.SharedDisks = nil // They are those of one VM.
	if diff := cmp.Diff(outer, Options{}.Over(outer)); diff != "" {
		t.Errorf("options aren't inherited (-outer +got):\n%s", diff)
	}

	// The limit of QEMU, and what the fleet shares, have no default.
	without := []string{"MaxDowntime", "SharedFilesystems", "SharedDisks"}
	defaults := reflect.ValueOf(Options{}.WithDefaults())
	for i := range defaults.NumField() {
		name := defaults.Type().Field(i).Name
		if defaults.Field(i).IsZero() && !slices.Contains(without, name) {
			t.Errorf("%s has no default", name)
		}
	}
}

func TestOptions_validate(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options Options
		paths   []string
	}{
		"none":                 {Options{}, nil},
		"limits":               {Options{MaxDowntime: new(time.Millisecond), ParallelConnections: new(255)}, nil},
		"transport":            {Options{Transport: "pigeon"}, []string{"transport"}},
		"irrecoverable":        {Options{OnIrrecoverable: "shrug"}, []string{"on_irrecoverable"}},
		"negative":             {Options{ProgressTimeout: new(-time.Second)}, []string{"progress_timeout"}},
		"downtime of none":     {Options{MaxDowntime: new(time.Duration(0))}, []string{"max_downtime"}},
		"compression":          {Options{Compression: "mt"}, []string{"compression"}},
		"xbzrle and several":   {Options{Compression: "xbzrle", ParallelConnections: new(2)}, []string{"compression"}},
		"zstd and one":         {Options{Compression: "zstd", ParallelConnections: new(0)}, []string{"compression"}},
		"peers, relayed":       {Options{PeerToPeer: new(true), Transport: "ssh_relay"}, []string{"peer_to_peer"}},
		"the other level's":    {Options{Compression: "zstd"}, nil},
		"zlib through several": {Options{Compression: "zlib", ParallelConnections: new(2)}, nil},
		"shared":               {Options{SharedFilesystems: []string{"/srv/images", "/mnt"}}, nil},
		"shared, all":          {Options{SharedFilesystems: []string{"/"}}, []string{"shared_filesystems"}},
		"shared, not whole":    {Options{SharedFilesystems: []string{"srv"}}, []string{"shared_filesystems"}},
		"shared, with a slash": {Options{SharedFilesystems: []string{"/srv/"}}, []string{"shared_filesystems"}},
		"several": {
			Options{MaxDowntime: new(time.Hour), ParallelConnections: new(256), CompletionTimeoutPerGiB: new(-time.Hour)},
			[]string{"completion_timeout_per_gib", "max_downtime", "parallel_connections"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var paths []string
			for _, p := range tt.options.Validate() {
				paths = append(paths, p.Path)
			}
			if diff := cmp.Diff(tt.paths, paths); diff != "" {
				t.Errorf("problems differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOptions_postCopyWithParallelConnectionsNeedsBothHostsToBeNew(t *testing.T) {
	t.Parallel()
	host := func(major, minor int) *libvirt.HostInfo {
		return &libvirt.HostInfo{HypervisorVersion: libvirt.Version{Major: major, Minor: minor}}
	}
	both := Options{AllowPostCopy: new(true), ParallelConnections: new(2)}
	tests := map[string]struct {
		options        Options
		source, target *libvirt.HostInfo
		blocked        bool
	}{
		"old":          {both, host(7, 2), host(7, 2), true},
		"old target":   {both, host(10, 1), host(10, 0), true},
		"new":          {both, host(10, 1), host(11, 0), false},
		"post-copy":    {Options{AllowPostCopy: new(true)}, host(7, 2), host(7, 2), false},
		"parallel":     {Options{ParallelConnections: new(2)}, host(7, 2), host(7, 2), false},
		"neither":      {Options{}, host(7, 2), host(7, 2), false},
		"turned off":   {Options{ParallelConnections: new(0), AllowPostCopy: new(true)}, host(7, 2), host(7, 2), false},
		"not for this": {Options{ParallelConnections: new(2), AllowPostCopy: new(false)}, host(7, 2), host(7, 2), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tt.options.Blockers(tt.source, tt.target); (len(got) == 1) != tt.blocked {
				t.Errorf("got %v, want blocked: %v", got, tt.blocked)
			}
		})
	}
}

func TestOptions_compressionNeedsItsConnectionsAndNewHosts(t *testing.T) {
	t.Parallel()
	host := func(major, minor int) *libvirt.HostInfo {
		return &libvirt.HostInfo{LibvirtVersion: libvirt.Version{Major: major, Minor: minor}}
	}
	tests := map[string]struct {
		options        Options
		source, target *libvirt.HostInfo
		blocked        bool
	}{
		"xbzrle":                 {Options{Compression: "xbzrle"}, host(9, 0), host(9, 0), false},
		"xbzrle through several": {Options{Compression: "xbzrle", ParallelConnections: new(2)}, host(9, 4), host(9, 4), true},
		"zlib through one":       {Options{Compression: "zlib"}, host(9, 4), host(9, 4), true},
		"old source":             {Options{Compression: "zstd", ParallelConnections: new(2)}, host(9, 3), host(9, 4), true},
		"old target":             {Options{Compression: "zlib", ParallelConnections: new(2)}, host(9, 4), host(9, 0), true},
		"new":                    {Options{Compression: "zstd", ParallelConnections: new(2)}, host(9, 4), host(10, 0), false},
		"none":                   {Options{Compression: "none", ParallelConnections: new(2)}, host(9, 0), host(9, 0), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := tt.options.Blockers(tt.source, tt.target)
			if (len(got) == 1) != tt.blocked {
				t.Errorf("got %v, want blocked: %v", got, tt.blocked)
			}
		})
	}
}
