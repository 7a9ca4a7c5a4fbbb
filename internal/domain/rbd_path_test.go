package domain

import "testing"

// TestDiskSource_rbdPath: the path of an RBD image names the image and its servers, and leads back to the same source.
func TestDiskSource_rbdPath(t *testing.T) {
	t.Parallel()
	rbd := func(snapshot string, hosts ...string) DiskSource {
		return DiskSource{Network: &NetworkSource{
			Protocol: "rbd", Name: "vms/a", Hosts: hosts, Values: Values{"snapshot": snapshot},
		}}
	}
	for want, s := range map[string]DiskSource{
		"rbd:vms/a@":                     rbd(""),
		"rbd:vms/a@ceph1:6789,[::1]:300": rbd("", "ceph1:6789", "[::1]:300"),
		"rbd:vms/a@ceph1":                rbd("", "ceph1"),
	} {
		got := s.RBDPath()
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if s.VolumePath() != "vms/a" || SourceAt(got).VolumePath() != "vms/a" {
			t.Errorf("%q is the volume %q", got, s.VolumePath())
		}
		if n := ParseRBDPath(got); n == nil || !sameSource(s, DiskSource{Network: n}) {
			t.Errorf("%q was read as %+v", got, n)
		}
	}
	for _, s := range []DiskSource{
		{}, {File: "/vms/a"}, rbd("base"), {Network: &NetworkSource{Protocol: "nbd", Name: "a"}},
	} {
		if got := s.VolumePath(); got != s.File {
			t.Errorf("%+v is the volume %q", s, got)
		}
		if got := s.RBDPath(); got != "" || ParseRBDPath(s.File) != nil {
			t.Errorf("%+v is at %q", s, got)
		}
	}
	// A VM that has a snapshot doesn't have the volume.
	if n := ParseRBDPath("rbd:vms/a@c"); sameSource(rbd("base", "c"), DiskSource{Network: n}) {
		t.Error("a snapshot is taken for the image")
	}
}
