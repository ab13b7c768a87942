"""A Hive metastore on the loopback alone: python hive_server.py PORT, with `hive-site.xml` in the folder SPARK_CONF_DIR.

Hive 2.3's own command listens on all addresses of the machine. So the parts that it puts together are put together here.
"""

from __future__ import annotations

import sys

from pyspark.java_gateway import launch_gateway

if __name__ == "__main__":
    jvm = launch_gateway().jvm
    hive, thrift = jvm.org.apache.hadoop.hive.metastore, jvm.org.apache.thrift
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    handler = hive.RetryingHMSHandler.getProxy(conf, hive.HiveMetaStore.HMSHandler("tests", conf, False), False)
    socket = thrift.transport.TServerSocket(jvm.java.net.InetSocketAddress("127.0.0.1", int(sys.argv[1])))
    arguments = thrift.server.TThreadPoolServer.Args(socket).processor(hive.TSetIpAddressProcessor(handler))
    thrift.server.TThreadPoolServer(arguments).serve()
