import java.nio.file.Files;

import org.infinispan.configuration.global.GlobalConfigurationBuilder;
import org.infinispan.globalstate.ConfigurationStorage;
import org.infinispan.manager.DefaultCacheManager;
import org.infinispan.server.resp.RespServer;
import org.infinispan.server.resp.configuration.RespServerConfigurationBuilder;

/** Infinispan's RESP endpoint on the port that is named, until the process is ended. */
public final class Run {
	public static void main(String[] arguments) throws Exception {
		GlobalConfigurationBuilder global = new GlobalConfigurationBuilder();
		/* It makes its cache while it runs, which needs a place for its configuration. */
		global.globalState().enable().persistentLocation("state")
			.configurationStorage(ConfigurationStorage.OVERLAY);
		RespServer server = new RespServer();
		server.start(new RespServerConfigurationBuilder().host("127.0.0.1")
			.port(Integer.parseInt(arguments[0])).build(),
			new DefaultCacheManager(global.build()));
		server.postStart();
		Thread.currentThread().join();
	}
}
