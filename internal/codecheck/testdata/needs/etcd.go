package needs

var client *clientv3.Client
