package domain

// resourcesGroup is the whole VM's share of its host.
var resourcesGroup = Group{
	Path: "platform.resources",
	Doc:  "Resource limits of the whole VM.",
	Attributes: []Attribute{
		{
			Name: "partition", Place: "resource/partition", Echo: true, Check: absolute,
			Why: "The VM is put into its resource partition when it starts.",
			Doc: "Resource partition (cgroup) of the host, such as `/machine/prod`, which the host must have. `\"\"` " +
				"removes it.",
		},
		{
			Name: "blkio_weight", Place: "blkiotune/weight", Kind: Count, Zero: true, Check: between(1, 10000),
			Live: SetBlkioWeight, Cold: cantBeUndone, Why: "The weight is set in the running VM.",
			Doc: "Weight of its disk I/O from 1 to 10000, compared with other VMs of the host; `0`: the host's default.",
		},
	},
}
